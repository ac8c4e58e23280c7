// Rows of 30 in a buffer with rows of 32: a vector load reads the padding.
//
// launch: grid=1 block=32
// args: f32[120]=iota f32[128]=uninit f32[32]=zeros
// bug: uninitialised global

extern "C" __global__ void pad_and_sum(const float* in, float* padded, float* out) {
    int t = threadIdx.x;
    for (int i = t; i < 120; i += 32) padded[i / 30 * 32 + i % 30] = in[i];
    __syncthreads();
    float4 v = *reinterpret_cast<const float4*>(padded + 4 * t);  // BUG
    out[t] = v.x + v.y + v.z + v.w;
}
