// Layer normalisation of each row: y = (x - mean) / sqrt(var + epsilon) * weight + bias.
//
// Idea: one block per row, whose threads stride along it in three passes: mean, variance of x - mean, result. The form with
// one pass, E[x^2] - mean^2, subtracts two large and nearly equal numbers where the mean is large against the spread, and
// f32 has no digits left for the difference.
//
// Grid:    x = n blocks, one per row.
// Block:   BLOCK threads, a power of two, given at compile time.
// Shared:  BLOCK * 4 bytes, static.
// Reads:   x, weight, bias. Writes: y. x and y may be the same array.
//
// launch: grid=6 block=128
// define: BLOCK=128
// args: f32[1800]=uninit f32[1800]=random f32[300]=ones f32[300]=zeros f32=1e-5 u32=300

#include "stage2-naive-cuda/block_reduce.cuh"

// ANCHOR: kernel
extern "C" __global__ void layernorm(float* y,             // [n, C] f32
                                     const float* x,       // [n, C] f32
                                     const float* weight,  // [C] f32
                                     const float* bias,    // [C] f32
                                     float epsilon, unsigned C) {
    __shared__ float reduce_smem[BLOCK];
    const float* x_row = x + (size_t)blockIdx.x * C;
    float* y_row = y + (size_t)blockIdx.x * C;

    // ANCHOR: load
    float sum = 0.0f;
    for (unsigned c = threadIdx.x; c < C; c += BLOCK) {
        sum += x_row[c];
    }
    const float mean = block_reduce<BLOCK>(sum, reduce_smem, Sum()) / (float)C;
    // ANCHOR_END: load

    // ANCHOR: variance
    float squares = 0.0f;
    for (unsigned c = threadIdx.x; c < C; c += BLOCK) {
        const float centred = x_row[c] - mean;
        squares += centred * centred;
    }
    const float variance = block_reduce<BLOCK>(squares, reduce_smem, Sum()) / (float)C;
    // ANCHOR_END: variance

    // ANCHOR: write
    const float inverse_deviation = 1.0f / sqrtf(variance + epsilon);
    for (unsigned c = threadIdx.x; c < C; c += BLOCK) {
        y_row[c] = (x_row[c] - mean) * inverse_deviation * weight[c] + bias[c];
    }
    // ANCHOR_END: write
}
// ANCHOR_END: kernel
