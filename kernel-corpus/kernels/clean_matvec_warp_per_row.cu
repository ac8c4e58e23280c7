// A matrix times a vector, a warp per row, rows of 40.
//
// launch: grid=2 block=64
// args: f32[160]=iota f32[40]=ones f32[4]=uninit
// bug: none
// expect 2: f32 780 2380 3980 5580

#include "prelude.cuh"

extern "C" __global__ void matvec(const float* a, const float* x, float* y) {
    int row = blockIdx.x * 2 + threadIdx.x / 32, lane = threadIdx.x % 32;
    float sum = 0.0f;
    for (int k = lane; k < 40; k += 32) sum += a[row * 40 + k] * x[k];
    sum = warp_sum(sum);
    if (lane == 0) y[row] = sum;
}
