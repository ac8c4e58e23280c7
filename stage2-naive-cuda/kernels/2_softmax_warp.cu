// Softmax of rows, in place: x = exp(x - max) / sum(exp(x - max)), and its log-sum-exp.
//
// Idea: one warp per row. Its lanes stride along the row, and fold their maxima and sums by
// shuffles: registers of one lane are read by another, without shared memory and without a barrier.
// A block has WARPS rows, whose warps do not wait for each other.
// A row that is empty or all -inf becomes 0, with log-sum-exp -inf.
//
// Grid:   x = ceil(rows / 4) blocks.
// Block:  (32, 4): a warp for each row.
// Shared: none.
// Reads:  x. Writes: x, lse.
// Since rung 1: shuffles in a warp instead of a tree in shared memory, so a row has 32 threads.
// What limits it now: device memory, which a row of 256 floats crosses once in each direction; the
// later passes read a cache. Few and long rows would leave most of a device idle.
//
// launch: grid=5 block=32,4
// args: f32[6000]=random f32[20]=uninit i32=20 i32=300

#include "prelude.cuh"

constexpr int LANES = 32;
constexpr int WARPS = 4;

// ANCHOR: kernel
extern "C" __global__ void __launch_bounds__(LANES * WARPS) softmax(
    float* x,    // [rows, columns] f32
    float* lse,  // [rows] f32
    int rows,
    int columns
) {
    const int i = blockIdx.x * WARPS + threadIdx.y;
    if (i >= rows) {
        return;  // the whole warp: all lanes of the others reach the shuffles
    }
    float* row = x + (long long)i * columns;

    // ANCHOR: load
    float max = -INFINITY;
    for (int j = threadIdx.x; j < columns; j += LANES) {
        max = fmaxf(max, row[j]);
    }
    max = warp_max(max);
    // ANCHOR_END: load
    // exp(-inf - -inf) is NaN: if no element is finite, subtract 0, and every exponential is 0.
    const float shift = max == -INFINITY ? 0.0f : max;

    // ANCHOR: exp_sum
    float sum = 0.0f;
    for (int j = threadIdx.x; j < columns; j += LANES) {
        const float e = expf(row[j] - shift);
        row[j] = e;
        sum += e;
    }
    sum = warp_sum(sum);
    // ANCHOR_END: exp_sum

    // ANCHOR: write
    const float scale = sum == 0.0f ? 0.0f : 1.0f / sum;
    for (int j = threadIdx.x; j < columns; j += LANES) {
        row[j] *= scale;
    }
    if (threadIdx.x == 0) {
        lse[i] = sum == 0.0f ? -INFINITY : shift + logf(sum);
    }
    // ANCHOR_END: write
}
// ANCHOR_END: kernel
