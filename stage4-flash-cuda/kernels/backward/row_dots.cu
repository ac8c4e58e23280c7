// delta = rowsum(dO * o): a dot product for each row, before the kernels of the backward pass.
//
// Idea: softmax ties the scores of a row together, so the gradient of a score needs a sum over its
// whole row, sum_j p_ij dp_ij. That sum is dO_i . o_i: D products instead of nk. [FlashAttention-2,
// algorithm 2, line 4]
//
// Constants: ELEMENT, of dO and o: float unless it is f16.
// Grid:   x = ceil(rows / 8).
// Block:  (256). A warp has a row.
// Shared: none.
// Reads:  dO and o once. Writes: delta once.
//
// What limits it now: DRAM. Each number that it reads is multiplied once.
//
// launch: grid=2 block=256
// args: f32[960]=random f32[960]=random f32[15]=uninit i64=15 i32=64
#include "library/element.cuh"
#include "prelude.cuh"

#ifndef ELEMENT
#define ELEMENT float
#endif

constexpr int THREADS = 256;

extern "C" __global__ void __launch_bounds__(THREADS) row_dots(
    const ELEMENT* d_o,  // [rows, columns] ELEMENT
    const ELEMENT* o,    // [rows, columns] ELEMENT
    float* delta,        // [rows] f32
    long long rows, int columns
) {
    const long long row = static_cast<long long>(blockIdx.x) * (THREADS / 32) + threadIdx.x / 32;
    if (row >= rows) return;
    const long long begin = row * columns;
    float sum = 0.0f;
    for (int column = threadIdx.x % 32; column < columns; column += 32) {
        sum += widened(d_o[begin + column]) * widened(o[begin + column]);
    }
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0) {
        delta[row] = sum;
    }
}
