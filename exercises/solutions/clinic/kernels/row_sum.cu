// The sum of each row of a matrix.
//
// Symptom: right on the developer's machine for a year. On a new GPU some rows come out too
// small, others every time.
//
// Idea: a block has a row. Each warp adds its 32 elements, and thread 0 adds the sums of the warps.
//
// launch: grid=4 block=128
// args: f32[512]=iota f32[4]=uninit
// expect 1: f32 8128 24512 40896 57280
#include "prelude.cuh"

extern "C" __global__ void row_sum(
    const float* x,  // [rows, 128] f32
    float* y         // [rows] f32
) {
    __shared__ float warp_smem[4];
    const int lane = threadIdx.x % 32;
    const int warp = threadIdx.x / 32;
    const float sum = warp_sum(x[blockIdx.x * 128 + threadIdx.x]);
    if (lane == 0) warp_smem[warp] = sum;
    __syncthreads();  // so that thread 0 reads no sum before its warp has stored it
    if (threadIdx.x == 0) {
        float total = 0.0f;
        for (int w = 0; w < 4; w++) total += warp_smem[w];
        y[blockIdx.x] = total;
    }
}
