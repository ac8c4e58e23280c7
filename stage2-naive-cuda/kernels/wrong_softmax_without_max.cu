// WRONG on purpose, and used by a test only: softmax as x = exp(x) / sum(exp(x)), without
// subtracting the maximum.
//
// It is right on small inputs, so a test with small inputs proves little. From x = 89 on
// exp(x) is infinite, and the result is inf / inf = NaN. Below x = -104 every exponential
// is 0, and so is the sum.
//
// Grid:   x = rows blocks, one per row.
// Block:  (128).
// Shared: 128 * 4 bytes, static.
// Reads:  x. Writes: x, lse.
// Since 1_softmax_tree.cu: no maximum.
//
// launch: grid=20 block=128
// args: f32[6000]=random f32[20]=uninit i32=300

#include "prelude.cuh"

constexpr int THREADS = 128;

// ANCHOR: kernel
extern "C" __global__ void __launch_bounds__(THREADS) softmax_without_max(
    float* x,    // [rows, columns] f32
    float* lse,  // [rows] f32
    int columns
) {
    __shared__ float sum_smem[THREADS];
    float* row = x + (long long)blockIdx.x * columns;

    // ANCHOR: exp_sum
    float sum = 0.0f;
    for (int j = threadIdx.x; j < columns; j += THREADS) {
        const float e = expf(row[j]);
        row[j] = e;
        sum += e;
    }
    // ANCHOR_END: exp_sum

    // ANCHOR: reduce
    sum_smem[threadIdx.x] = sum;
    __syncthreads();  // so that no thread reads a sum that another has not stored yet
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) {
            sum_smem[threadIdx.x] += sum_smem[threadIdx.x + half];
        }
        __syncthreads();  // so that no thread reads a sum of the next step before it is stored
    }
    sum = sum_smem[0];
    // ANCHOR_END: reduce

    // ANCHOR: write
    const float scale = sum == 0.0f ? 0.0f : 1.0f / sum;
    for (int j = threadIdx.x; j < columns; j += THREADS) {
        row[j] *= scale;
    }
    if (threadIdx.x == 0) {
        lse[blockIdx.x] = sum == 0.0f ? -INFINITY : logf(sum);
    }
    // ANCHOR_END: write
}
// ANCHOR_END: kernel
