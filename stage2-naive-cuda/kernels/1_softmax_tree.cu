// Softmax of rows, in place: x = exp(x - max) / sum(exp(x - max)), and its log-sum-exp.
//
// Idea: one block per row. Its threads stride along the row in three passes: maximum, exponentials
// and their sum, scale. Each thread keeps its own maximum or sum, and block_reduce folds them by a
// tree in shared memory. A thread reads and writes only its own elements of x, so the passes need
// no barrier between them.
// A row that is empty or all -inf becomes 0, with log-sum-exp -inf.
//
// Grid:   x = rows blocks, one per row.
// Block:  (128).
// Shared: 128 * 4 bytes, static.
// Reads:  x. Writes: x, lse.
// What limits it now: on an H100 or A100 the issue of instructions. A reduction has 9 barriers
// and 7 steps in which ever fewer threads work; for a row of 256 both take more instructions than
// the three passes. The memory of an RTX 4090 or T4 is slower than that: there it limits this
// rung, as it does rung 2.
//
// launch: grid=20 block=128
// args: f32[6000]=random f32[20]=uninit i32=300

#include "block_reduce.cuh"
#include "prelude.cuh"

constexpr int THREADS = 128;

// ANCHOR: kernel
extern "C" __global__ void __launch_bounds__(THREADS) softmax(
    float* x,    // [rows, columns] f32
    float* lse,  // [rows] f32
    int columns
) {
    __shared__ float reduce_smem[THREADS];
    float* row = x + (long long)blockIdx.x * columns;

    // ANCHOR: load
    float max = -INFINITY;
    for (int j = threadIdx.x; j < columns; j += THREADS) {
        max = fmaxf(max, row[j]);
    }
    max = block_reduce<THREADS>(max, reduce_smem, Max());
    // ANCHOR_END: load
    // exp(-inf - -inf) is NaN: if no element is finite, subtract 0, and every exponential is 0.
    const float shift = max == -INFINITY ? 0.0f : max;

    // ANCHOR: exp_sum
    float sum = 0.0f;
    for (int j = threadIdx.x; j < columns; j += THREADS) {
        const float e = expf(row[j] - shift);
        row[j] = e;
        sum += e;
    }
    sum = block_reduce<THREADS>(sum, reduce_smem, Sum());
    // ANCHOR_END: exp_sum

    // ANCHOR: write
    const float scale = sum == 0.0f ? 0.0f : 1.0f / sum;
    for (int j = threadIdx.x; j < columns; j += THREADS) {
        row[j] *= scale;
    }
    if (threadIdx.x == 0) {
        lse[blockIdx.x] = sum == 0.0f ? -INFINITY : shift + logf(sum);
    }
    // ANCHOR_END: write
}
// ANCHOR_END: kernel
