// A row's softmax by a block of four warps, with shared memory reused between the two reductions.
//
// launch: grid=2 block=128
// args: f32[256]=ones f32[256]=uninit
// bug: none
// expect 1: f32 0.03125 0 0 0 0.03125 0 0 0 0.03125 0 0 0 0.03125 0 0 0 0.03125 0 0 0 0.03125 0 0 0 0.03125 0 0 0
// expect 1: f32 0.03125 0 0 0 0.03125 0 0 0 0.03125 0 0 0 0.03125 0 0 0 0.03125 0 0 0 0.03125 0 0 0 0.03125 0 0 0
// expect 1: f32 0.03125 0 0 0 0.03125 0 0 0 0.03125 0 0 0 0.03125 0 0 0 0.03125 0 0 0 0.03125 0 0 0 0.03125 0 0 0
// expect 1: f32 0.03125 0 0 0 0.03125 0 0 0 0.03125 0 0 0 0.03125 0 0 0 0.03125 0 0 0 0.03125 0 0 0 0.03125 0 0 0
// expect 1: f32 0.03125 0 0 0 0.03125 0 0 0 0.03125 0 0 0 0.03125 0 0 0 0 0.03125 0 0 0 0.03125 0 0 0 0.03125 0 0 0
// expect 1: f32 0.03125 0 0 0 0.03125 0 0 0 0.03125 0 0 0 0.03125 0 0 0 0.03125 0 0 0 0.03125 0 0 0 0.03125 0 0 0
// expect 1: f32 0.03125 0 0 0 0.03125 0 0 0 0.03125 0 0 0 0.03125 0 0 0 0.03125 0 0 0 0.03125 0 0 0 0.03125 0 0 0
// expect 1: f32 0.03125 0 0 0 0.03125 0 0 0 0.03125 0 0 0 0.03125 0 0 0 0.03125 0 0 0 0.03125 0 0 0 0.03125 0 0 0
// expect 1: f32 0.03125 0 0 0 0.03125 0 0 0 0.03125 0 0 0 0.03125 0 0 0 0.03125 0 0 0 0.03125 0 0 0 0.03125 0 0 0
// expect 1: f32 0.03125 0 0

#include "prelude.cuh"

extern "C" __global__ void softmax(const float* in, float* out) {
    __shared__ float partial[4];
    int t = threadIdx.x, i = blockIdx.x * 128 + t;
    float x = t % 4 == blockIdx.x ? in[i] : -INFINITY;
    float peak = warp_max(x);
    if (t % 32 == 0) partial[t / 32] = peak;
    __syncthreads();
    peak = fmaxf(fmaxf(partial[0], partial[1]), fmaxf(partial[2], partial[3]));
    float p = expf(x - peak);
    __syncthreads();  // all have read the maxima before sums replace them
    float sum = warp_sum(p);
    if (t % 32 == 0) partial[t / 32] = sum;
    __syncthreads();
    out[i] = p / (partial[0] + partial[1] + partial[2] + partial[3]);
}
