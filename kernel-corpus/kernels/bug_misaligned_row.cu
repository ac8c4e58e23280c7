// Rows of six floats: every second one begins at no multiple of 16 bytes.
//
// launch: grid=1 block=8
// args: f32[48]=iota f32[8]=zeros
// bug: misaligned

extern "C" __global__ void first_four(const float* in, float* out) {
    const float* row = in + 6 * threadIdx.x;
    float4 v = *reinterpret_cast<const float4*>(row);  // BUG
    out[threadIdx.x] = v.x + v.y + v.z + v.w;
}
