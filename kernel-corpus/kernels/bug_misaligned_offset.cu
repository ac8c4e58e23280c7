// Four floats at a time, from an address one float off.
//
// launch: grid=1 block=8
// args: f32[40]=iota f32[8]=zeros
// bug: misaligned

extern "C" __global__ void sums_of_four(const float* in, float* out) {
    float4 v = *reinterpret_cast<const float4*>(in + 1 + 4 * threadIdx.x);  // BUG
    out[threadIdx.x] = v.x + v.y + v.z + v.w;
}
