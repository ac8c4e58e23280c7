// Each row of a matrix becomes its exponentials divided by their sum.
//
// grid: one block per row; block: 128 threads; shared: 16 bytes
// reads x [rows, n], writes y [rows, n]; n a multiple of 128 or not
#include "prelude.cuh"

constexpr int THREADS = 128;
constexpr int WARPS = THREADS / 32;

extern "C" __global__ void row_softmax(const float* x,  // [rows, n] f32
                                       float* y,        // [rows, n] f32
                                       int n) {
    __shared__ float warps_smem[WARPS];
    const float* row = x + (size_t)blockIdx.x * n;
    float* out = y + (size_t)blockIdx.x * n;
    int warp = threadIdx.x / 32;

    float most = -INFINITY;
    for (int i = threadIdx.x; i < n; i += THREADS) {
        most = fmaxf(most, row[i]);
    }
    most = warp_max(most);
    if (threadIdx.x % 32 == 0) {
        warps_smem[warp] = most;
    }
    __syncthreads();  // all maxima are there
    for (int i = 0; i < WARPS; ++i) {
        most = fmaxf(most, warps_smem[i]);
    }
    __syncthreads();  // all have read them

    float sum = 0.0f;
    for (int i = threadIdx.x; i < n; i += THREADS) {
        sum += exp2f((row[i] - most) * 1.44269504f);
    }
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0) {
        warps_smem[warp] = sum;
    }
    __syncthreads();  // all sums are there
    float total = 0.0f;
    for (int i = 0; i < WARPS; ++i) {
        total += warps_smem[i];
    }
    float scale = 1.0f / total;
    for (int i = threadIdx.x; i < n; i += THREADS) {
        out[i] = exp2f((row[i] - most) * 1.44269504f) * scale;
    }
}
