// GELU in the tanh form that GPT-2 was trained with ("gelu_new"), in place:
// x = x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3))).
//
// Grid:    enough blocks to give each element a thread.
// Block:   any size.
// Shared:  none.
// Reads:   x. Writes: x.
// The cube of a large x overflows to infinity, and tanh of infinity is exactly 1. A large x gives x, a large -x gives 0.
//
// launch: grid=4 block=256
// args: f32[1000]=random u64=1000

// ANCHOR: kernel
extern "C" __global__ void gelu_tanh(float* x,  // [count] f32
                                     unsigned long long count) {
    constexpr float SQRT_2_OVER_PI = 0.7978845608028654f;
    const unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) {
        return;
    }
    // ANCHOR: load
    const float v = x[i];
    // ANCHOR_END: load
    // ANCHOR: write
    x[i] = 0.5f * v * (1.0f + tanhf(SQRT_2_OVER_PI * (v + 0.044715f * v * v * v)));
    // ANCHOR_END: write
}
// ANCHOR_END: kernel
