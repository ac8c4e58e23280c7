// Inline PTX with an accumulator that has no start value.
//
// launch: grid=1 block=32
// args: f32[32]=iota f32[32]=zeros
// bug: uninitialised register

extern "C" __global__ void square(const float* in, float* out) {
    float x = in[threadIdx.x], y;
    asm volatile("{ .reg .f32 sum; fma.rn.f32 sum, %1, %1, sum; mov.f32 %0, sum; }" : "=f"(y) : "f"(x));  // BUG
    out[threadIdx.x] = y;
}
