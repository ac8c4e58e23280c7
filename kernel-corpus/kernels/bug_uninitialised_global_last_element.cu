// The first pass stops one short of the end, which the second pass reads.
//
// launch: grid=1 block=64
// args: f32[64]=iota f32[64]=uninit f32[64]=zeros i32=64
// bug: uninitialised global

extern "C" __global__ void two_passes(const float* in, float* between, float* out, int n) {
    int t = threadIdx.x;
    if (t < n - 1) between[t] = in[t] * 0.5f;
    __syncthreads();
    if (t < n) out[t] = between[n - 1 - t];  // BUG
}
