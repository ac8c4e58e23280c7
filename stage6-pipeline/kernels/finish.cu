// End of a linear layer whose product another kernel has stored: the bias and an activation.
//
// Idea: cuBLAS stores a product, or adds it to y. gemm.cu has the epilogue in the kernel, and needs none of this.
//
// Grid:   x = n, one block per row.
// Block:  any size; the threads stride over the outputs.
// Shared: none.
// Reads:  product, bias. Writes: y, which may be the product unless the epilogue is SwiGLU.
//
// launch: grid=3 block=64
// args: f32[99]=uninit f32[198]=random f32[66]=random i32=33 i32=2

#include "epilogue.cuh"

// ANCHOR: kernel
extern "C" __global__ void finish(
    float* y,              // [n, outputs] f32
    const float* product,  // [n, outputs] f32, or [n, 2 * outputs] for SwiGLU: the gates of a row, then its ups
    const float* bias,     // [outputs] or [2 * outputs] f32, or null
    int outputs,
    int epilogue           // STORE, GELU or SWIGLU
) {
    const bool gated = epilogue == SWIGLU;
    const long long row = blockIdx.x;
    float* y_row = y + row * outputs;
    const float* product_row = product + row * outputs * (gated ? 2 : 1);
    for (int o = threadIdx.x; o < outputs; o += blockDim.x) {
        float value = product_row[o] + (bias != nullptr ? bias[o] : 0.0f);
        if (gated) {
            const float up = product_row[o + outputs] + (bias != nullptr ? bias[o + outputs] : 0.0f);
            value = silu(value) * up;
        } else if (epilogue == GELU) {
            value = gelu(value);
        }
        y_row[o] = value;
    }
}
// ANCHOR_END: kernel
