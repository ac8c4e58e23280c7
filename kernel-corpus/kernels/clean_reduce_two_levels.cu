// Warps reduce by shuffles, leave a sum each, and warp 0 adds those with its first lanes only.
//
// launch: grid=2 block=160
// args: f32[320]=iota f32[2]=uninit
// bug: none
// expect 1: f32 12720 38320

#include "prelude.cuh"

extern "C" __global__ void reduce(const float* in, float* out) {
    __shared__ float sums[5];
    int t = threadIdx.x;
    float x = warp_sum(in[blockIdx.x * 160 + t]);
    if (t % 32 == 0) sums[t / 32] = x;
    __syncthreads();
    if (t < 32) {
        float total = warp_sum(t < 5 ? sums[t] : 0.0f);
        if (t == 0) out[blockIdx.x] = total;
    }
}
