// Softmax over one dimension, in place: x = exp(x - max) / sum(exp(x - max)), and its log-sum-exp.
//
// Idea: one block per vector. Its threads stride along the vector in three passes: maximum, exponentials and their sum,
// scale. Each thread keeps its own maximum or sum; then the block folds them, through shared memory, with barriers.
// The dimension is the last one (inner = 1) or the next-to-last (inner = columns): element i of a vector is
// x[outer * length * inner + i * inner + (position within inner)].
// A vector that is empty or all -inf becomes 0, with log-sum-exp -inf.
//
// Grid:   x = outer * inner blocks, one per vector.
// Block:  (128).
// Shared: yours to choose, static.
// Reads:  x. Writes: x, lse.
//
// launch: grid=20 block=128
// args: f32[6000]=random f32[20]=uninit i32=300 i32=1

#include "prelude.cuh"

constexpr int THREADS = 128;

extern "C" __global__ void __launch_bounds__(THREADS) softmax(
    float* x,    // [outer, length, inner] f32, packed
    float* lse,  // [outer, inner] f32, or null
    int length,  // of the normalised dimension
    int inner    // product of the dimensions after it
) {
    // TODO, task softmax.
}
