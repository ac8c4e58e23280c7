// A barrier in a loop whose length is an argument: all threads run it alike.
//
// launch: grid=1 block=64
// args: i32[64]=iota i32[64]=uninit i32=5
// bug: none
// expect 1: i32 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39 40 41 42
// expect 1: i32 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63 64 65 66 67 68 5 6 7 8 9

extern "C" __global__ void rotate(const int* in, int* out, int rounds) {
    __shared__ int ring[64];
    int t = threadIdx.x, x = in[t];
    for (int r = 0; r < rounds; r++) {
        ring[t] = x;
        __syncthreads();
        x = ring[(t + 1) % 64] + 1;
        __syncthreads();
    }
    out[t] = x;
}
