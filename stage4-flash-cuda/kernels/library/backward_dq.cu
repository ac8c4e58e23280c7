// dq = scale * sums, with the strides of q: the last kernel of the backward pass.
//
// Idea: as in backward_row_dots.cu, a warp has a row.
//
// Constants: ELEMENT, of dq: float unless it is f16 or bf16.
// Grid:   x = ceil(B * H * nq / 8).
// Block:  (256).
// Shared: none.
// Reads:  the sums once. Writes: dq once.
//
// launch: grid=2 block=256
// args: f32[960]=random f32[960]=uninit i64=15 i64=64
// args: {{i64=960,320,64}, {i64=960,320,64}, {i64=960,320,64}, {i64=960,320,64},
// args:  {i64=0,0,0}, {i64=0,0,0}, i32=3,1, 5,7, 64, -5,7, f32=0.125}
#include "element.cuh"
#include "problem.cuh"

#ifndef ELEMENT
#define ELEMENT float
#endif

constexpr int THREADS = 256;

extern "C" __global__ void __launch_bounds__(THREADS) backward_dq(
    const float* sums,  // [B, H, nq, columns] f32, of which D are read
    ELEMENT* dq,        // [B, H, nq, D] f32, f16 or bf16, with the strides of q
    long long rows,     // B * H * nq
    long long columns,
    Problem problem
) {
    const long long row = static_cast<long long>(blockIdx.x) * (THREADS / 32) + threadIdx.x / 32;
    if (row >= rows) return;
    const int matrix = static_cast<int>(row / problem.nq);
    ELEMENT* dq_row = matrix_of(dq, problem.q, matrix / problem.heads, matrix % problem.heads) + row % problem.nq * problem.q.row;
    for (int column = threadIdx.x % 32; column < problem.head_dim; column += 32) {
        dq_row[column] = rounded<ELEMENT>(problem.scale * sums[row * columns + column]);
    }
}
