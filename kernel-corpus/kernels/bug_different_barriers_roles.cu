// One warp fills a tile and the other uses it: each has a barrier in its own branch, and they pair.
//
// launch: grid=1 block=64
// args: i32[64]=iota i32[64]=zeros
// bug: different barriers

extern "C" __global__ void pass_on(const int* in, int* out) {
    __shared__ int tile[64];
    int t = threadIdx.x;
    if (t < 32) {
        tile[t] = in[t];
        tile[t + 32] = in[t + 32];
        __syncthreads();  // BUG
    } else {
        __syncthreads();  // BUG
        out[t - 32] = tile[63 - t];
        out[t] = tile[95 - t];
    }
}
