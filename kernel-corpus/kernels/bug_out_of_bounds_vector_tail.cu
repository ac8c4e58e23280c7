// Loads of four at a time, and a size that is no multiple of four.
//
// launch: grid=1 block=32
// args: f32[102]=iota f32[32]=zeros i32=102
// bug: out of bounds

extern "C" __global__ void sums_of_four(const float* in, float* out, int n) {
    int t = threadIdx.x;
    if (4 * t < n) {
        float4 v = *reinterpret_cast<const float4*>(in + 4 * t);  // BUG
        out[t] = v.x + v.y + v.z + v.w;
    }
}
