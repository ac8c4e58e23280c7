// Work on a sum that a product has computed, before it is stored: the bias, an
// activation, the residual addition.

#pragma once

// ANCHOR: epilogue
// Passed as an integer; `Epilogue` in src/linear.rs is the same list.
enum Epilogue {
    STORE = 0,   // y = sum + bias
    GELU = 1,    // y = gelu(sum + bias), in the tanh form that GPT-2 was trained with ("gelu_new")
    SWIGLU = 2,  // y = silu(gate) * up, where row i of the weight is the gate and row i + outputs is the up of output i
    ADD = 3,     // y += sum + bias
};
// ANCHOR_END: epilogue

// ANCHOR: activations
// x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3))). The cube of a large x overflows to infinity,
// and tanh of infinity is exactly 1: a large x gives x, a large -x gives 0.
__device__ __forceinline__ float gelu(float x) {
    constexpr float SQRT_2_OVER_PI = 0.7978845608028654f;
    return 0.5f * x * (1.0f + tanhf(SQRT_2_OVER_PI * (x + 0.044715f * x * x * x)));
}

// x / (1 + exp(-x)). A large x gives x, a large -x gives -0.
__device__ __forceinline__ float silu(float x) {
    return x / (1.0f + expf(-x));
}
// ANCHOR_END: activations
