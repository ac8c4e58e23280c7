// Threads outside the array come to the barrier first and return then.
//
// launch: grid=2 block=64
// args: i32[100]=iota i32[100]=uninit i32=100
// bug: none
// expect 1: i32 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36
// expect 1: i32 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63 -1 65 66 67 68 69
// expect 1: i32 70 71 72 73 74 75 76 77 78 79 80 81 82 83 84 85 86 87 88 89 90 91 92 93 94 95 96 97 98 99 -1

extern "C" __global__ void next(const int* in, int* out, int n) {
    __shared__ int tile[64];
    int t = threadIdx.x, i = blockIdx.x * 64 + t;
    if (i < n) tile[t] = in[i];
    __syncthreads();
    if (i >= n) return;
    out[i] = t < 63 && i + 1 < n ? tile[t + 1] : -1;
}
