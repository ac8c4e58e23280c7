// Part of the block writes in a branch, and the barrier that all threads take is behind it.
//
// launch: grid=1 block=64
// args: i32[64]=iota i32[64]=uninit
// bug: none
// expect 1: i32 63 62 61 60 59 58 57 56 55 54 53 52 51 50 49 48 32 34 36 38 40 42 44 46 48 50 52 54 56 58 60 62 64
// expect 1: i32 66 68 70 72 74 76 78 80 82 84 86 88 90 92 94 96 98 100 102 104 106 108 110 112 114 116 118 120 122
// expect 1: i32 124 126

extern "C" __global__ void mirror(const int* in, int* out) {
    __shared__ int tile[64];
    int t = threadIdx.x;
    tile[t] = in[t];
    __syncthreads();
    int other = tile[63 - t];
    __syncthreads();
    if (t < 48) tile[t] = 2 * other;
    __syncthreads();
    out[t] = tile[63 - t];
}
