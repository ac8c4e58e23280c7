// A grid-stride loop whose stride is an argument, and zero.
//
// launch: grid=1 block=32
// args: f32[64]=iota f32[64]=zeros i32=64 i32=0
// bug: endless loop

extern "C" __global__ void scale(const float* in, float* out, int n, int stride) {
    for (int i = threadIdx.x; i < n; i += stride) out[i] = 2.0f * in[i];  // BUG
}
