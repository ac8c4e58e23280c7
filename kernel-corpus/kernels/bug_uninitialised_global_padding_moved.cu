// Rows of 30 in rows of 32: the padding is passed on to another lane, which
// adds it to its own value.
//
// launch: grid=1 block=32
// args: f32[120]=iota f32[128]=uninit f32[32]=zeros
// bug: uninitialised global

extern "C" __global__ void neighbours(const float* in, float* padded, float* out) {
    int t = threadIdx.x;
    for (int i = t; i < 120; i += 32) padded[i / 30 * 32 + i % 30] = in[i];
    __syncthreads();
    float4 v = *reinterpret_cast<const float4*>(padded + 4 * t);
    float before = __shfl_up_sync(0xffffffff, v.w, 1);
    out[t] = before + v.x;  // BUG
}
