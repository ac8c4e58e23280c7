// The row's maximum, found by warp 0, is used by warp 1 with no barrier between.
//
// launch: grid=2 block=64
// args: f32[128]=iota f32[128]=zeros
// bug: shared race

extern "C" __global__ void below_peak(const float* in, float* out) {
    __shared__ float peak;
    const float* row = in + blockIdx.x * 64;
    int t = threadIdx.x;
    if (t == 0) peak = row[0];
    __syncthreads();
    if (t < 32) {
        float m = fmaxf(row[t], row[t + 32]);
        for (int d = 16; d > 0; d /= 2) m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, d));
        if (t == 0) peak = m;
    }
    out[blockIdx.x * 64 + t] = peak - row[t];  // BUG
}
