// The warp that writes waits at a barrier in its own branch; the warp that reads does not.
//
// launch: grid=1 block=64
// args: i32[32]=iota i32[32]=zeros
// bug: shared race

extern "C" __global__ void hand_over(const int* in, int* out) {
    __shared__ int tile[32];
    int t = threadIdx.x;
    if (t < 32) tile[t] = 0;
    __syncthreads();
    if (t < 32) {
        tile[t] = 2 * in[t];
        __syncthreads();  // MISSED
    } else {
        out[t - 32] = tile[t - 32];  // BUG
    }
}
