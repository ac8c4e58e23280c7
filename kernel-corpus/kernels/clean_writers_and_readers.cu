// A warp writes and another reads, each in its own branch; the barrier between is in neither.
//
// launch: grid=1 block=64
// args: i32[32]=iota i32[32]=uninit
// bug: none
// expect 1: i32 62 60 58 56 54 52 50 48 46 44 42 40 38 36 34 32 30 28 26 24 22 20 18 16 14 12 10 8 6 4 2 0

extern "C" __global__ void hand_over(const int* in, int* out) {
    __shared__ int tile[32];
    int t = threadIdx.x;
    if (t < 32) tile[t] = 2 * in[t];
    __syncthreads();
    if (t >= 32) out[t - 32] = tile[63 - t];
}
