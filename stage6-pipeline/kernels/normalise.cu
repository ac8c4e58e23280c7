// Normalisation of each row: layer norm, y = (x - mean) / sqrt(var + epsilon) * weight + bias, or
// RMS norm, y = x / sqrt(mean(x^2) + epsilon) * weight.
//
// Idea: one block per row, whose threads stride along it in three passes: mean, mean square of x -
// mean, result. The form with one pass, E[x^2] - mean^2, subtracts two large and nearly equal
// numbers where the mean is large against the spread, and f32 has no digits left for the
// difference. An RMS norm has no first pass: its mean is 0.
//
// Grid:   x = n, one block per row.
// Block:  a multiple of 32, at most 1024. A thread takes every blockDim.x-th vector
//         of 4 columns, or column.
// Shared: 32 * 4 bytes, static.
// Reads:  x, weight, bias if there is one. Writes: y, rounded to its type.
// Constants: ELEMENT (f32, f16, bf16), the type of y.
//
// launch: grid=6 block=64
// define: ELEMENT=f32
// args: f32[1800]=uninit f32[1800]=random f32[300]=ones f32[300]=zeros f32=1e-5 i32=300 i32=1 i32=4

#include "stage5-decode/library/cache.cuh"

// COUNT neighbouring floats, which one instruction moves.
template <int COUNT>
struct alignas(4 * COUNT) Floats {
    float x[COUNT];
};

// ANCHOR: reduce
// The sum of x over the block. All threads must call it, and all get the result.
__device__ __forceinline__ float block_sum(float x, float* sum_smem /* [32] */) {
    x = warp_sum(x);
    if (blockDim.x == 32) {
        return x;
    }
    __syncthreads();  // so that no thread stores a sum while another still reads those of the last call
    if (threadIdx.x % 32 == 0) {
        sum_smem[threadIdx.x / 32] = x;
    }
    __syncthreads();  // so that no thread reads the sum of a warp before it is stored
    const unsigned lane = threadIdx.x % 32;
    return warp_sum(lane < blockDim.x / 32 ? sum_smem[lane] : 0.0f);
}
// ANCHOR_END: reduce

// Normalises a row by vectors of COUNT columns.
template <int COUNT>
__device__ __forceinline__ void normalise_row(
    Bits* y, const float* x, const float* weight, const float* bias,
    float epsilon, int columns, bool centred, float* sum_smem
) {
    const auto at = [](const float* row, int c) { return *reinterpret_cast<const Floats<COUNT>*>(row + c); };
    const int first = threadIdx.x * COUNT, step = blockDim.x * COUNT;
    // ANCHOR: mean
    float mean = 0.0f;
    if (centred) {
        float sum = 0.0f;
        for (int c = first; c < columns; c += step) {
            const Floats<COUNT> v = at(x, c);
#pragma unroll
            for (int e = 0; e < COUNT; e++) {
                sum += v.x[e];
            }
        }
        mean = block_sum(sum, sum_smem) / static_cast<float>(columns);
    }
    // ANCHOR_END: mean
    // ANCHOR: variance
    float squares = 0.0f;
    for (int c = first; c < columns; c += step) {
        const Floats<COUNT> v = at(x, c);
#pragma unroll
        for (int e = 0; e < COUNT; e++) {
            squares += (v.x[e] - mean) * (v.x[e] - mean);
        }
    }
    const float variance = block_sum(squares, sum_smem) / static_cast<float>(columns);
    // ANCHOR_END: variance
    // ANCHOR: write
    const float inverse_deviation = 1.0f / sqrtf(variance + epsilon);
    for (int c = first; c < columns; c += step) {
        const Floats<COUNT> v = at(x, c), w = at(weight, c);
        Floats<COUNT> b = {};
        if (bias != nullptr) {
            b = at(bias, c);
        }
        Chunk<COUNT * sizeof(Bits)> out;
#pragma unroll
        for (int e = 0; e < COUNT; e++) {
            out.bits[e] = ELEMENT::narrow((v.x[e] - mean) * inverse_deviation * w.x[e] + b.x[e]);
        }
        *reinterpret_cast<Chunk<COUNT * sizeof(Bits)>*>(y + c) = out;
    }
    // ANCHOR_END: write
}

// ANCHOR: kernel
extern "C" __global__ void __launch_bounds__(1024) normalise(
    Bits* y,              // [n, columns]
    const float* x,       // [n, columns] f32
    const float* weight,  // [columns] f32
    const float* bias,    // [columns] f32, or null
    float epsilon,
    int columns,
    int centred,          // 1: layer norm; 0: RMS norm
    int vector            // columns that a thread reads at once: 4 if all rows are aligned to 16 bytes, else 1
) {
    __shared__ float sum_smem[32];
    const float* x_row = x + static_cast<long long>(blockIdx.x) * columns;
    Bits* y_row = y + static_cast<long long>(blockIdx.x) * columns;
    if (vector == 4) {
        normalise_row<4>(y_row, x_row, weight, bias, epsilon, columns, centred, sum_smem);
    } else {
        normalise_row<1>(y_row, x_row, weight, bias, epsilon, columns, centred, sum_smem);
    }
}
// ANCHOR_END: kernel
