// Many threads set one flag to one value, which is no conflict.
//
// launch: grid=1 block=64
// args: i32[64]=iota i32[1]=zeros i32[64]=uninit
// bug: none
// expect 1: i32 1
// expect 2: i32 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36
// expect 2: i32 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63

extern "C" __global__ void find(const int* in, int* found, int* out) {
    __shared__ int any;
    int t = threadIdx.x;
    if (t == 0) any = 0;
    __syncthreads();
    if (in[t] % 9 == 4) any = 1;
    __syncthreads();
    if (any) *found = 1;
    out[t] = any * t;
}
