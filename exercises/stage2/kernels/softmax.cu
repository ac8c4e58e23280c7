// Softmax of rows, in place: x = exp(x - max) / sum(exp(x - max)), and its log-sum-exp.
//
// Idea: one block per row. Its threads stride along the row in three passes: maximum, exponentials
// and their sum, scale. Each thread keeps its own maximum or sum; then the block folds them,
// through shared memory, with barriers.
// A row that is empty or all -inf becomes 0, with log-sum-exp -inf.
//
// Grid:   x = rows blocks, one per row.
// Block:  (128).
// Shared: yours to choose, static.
// Reads:  x. Writes: x, lse.
//
// launch: grid=20 block=128
// args: f32[6000]=random f32[20]=uninit i32=300

#include "prelude.cuh"

constexpr int THREADS = 128;

extern "C" __global__ void __launch_bounds__(THREADS) softmax(
    float* x,    // [rows, columns] f32
    float* lse,  // [rows] f32
    int columns
) {
    // TODO, task softmax.
}
