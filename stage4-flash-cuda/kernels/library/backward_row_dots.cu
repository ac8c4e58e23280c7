// delta = rowsum(dO * o) of tensors with any strides: a number for each query, before the other
// kernels of the backward pass.
//
// Idea: as in backward/row_dots.cu. A warp has a row.
//
// Constants: ELEMENT, of dO and o: float unless it is f16 or bf16.
// Grid:   x = ceil(B * H * nq / 8).
// Block:  (256).
// Shared: none.
// Reads:  dO and o once. Writes: delta once.
//
// launch: grid=2 block=256
// args: f32[960]=random f32[960]=random f32[15]=uninit i64=15
// args: {{i64=960,320,64}, {i64=960,320,64}, {i64=960,320,64}, {i64=960,320,64},
// args:  {i64=0,0,0}, {i64=0,0,0}, i32=3,1, 5,7, 64, -5,7, f32=0.125}
#include "element.cuh"
#include "problem.cuh"

#ifndef ELEMENT
#define ELEMENT float
#endif

constexpr int THREADS = 256;

extern "C" __global__ void __launch_bounds__(THREADS) backward_row_dots(
    const ELEMENT* d_o,  // [B, H, nq, D] f32, f16 or bf16, with the strides of o
    const ELEMENT* o,    // [B, H, nq, D] f32, f16 or bf16
    float* delta,        // [B, H, nq] f32, packed
    long long rows,      // B * H * nq
    Problem problem
) {
    const long long row = static_cast<long long>(blockIdx.x) * (THREADS / 32) + threadIdx.x / 32;
    if (row >= rows) return;
    const int matrix = static_cast<int>(row / problem.nq);
    const long long begin = row % problem.nq * problem.o.row;
    const ELEMENT* d_o_row = matrix_of(d_o, problem.o, matrix / problem.heads, matrix % problem.heads) + begin;
    const ELEMENT* o_row = matrix_of(o, problem.o, matrix / problem.heads, matrix % problem.heads) + begin;
    float sum = 0.0f;
    for (int column = threadIdx.x % 32; column < problem.head_dim; column += 32) {
        sum += widened(d_o_row[column]) * widened(o_row[column]);
    }
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0) {
        delta[row] = sum;
    }
}
