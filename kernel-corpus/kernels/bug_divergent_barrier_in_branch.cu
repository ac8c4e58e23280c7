// A barrier within a branch that part of a warp takes.
//
// launch: grid=1 block=64
// args: f32[64]=iota f32[64]=zeros
// bug: divergent barrier

extern "C" __global__ void shift(const float* in, float* out) {
    __shared__ float tile[64];
    int t = threadIdx.x;
    tile[t] = in[t];
    if (t < 40) {
        tile[t] += 1.0f;
        __syncthreads();  // BUG
    }
    __syncthreads();
    out[t] = tile[63 - t];
}
