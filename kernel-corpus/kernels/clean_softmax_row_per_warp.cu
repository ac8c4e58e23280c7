// A row's softmax by a warp, with masked elements: 16 equal ones remain.
//
// launch: grid=2 block=64
// args: f32[128]=ones f32[128]=uninit
// bug: none
// expect 1: f32 0.0625 0 0.0625 0 0.0625 0 0.0625 0 0.0625 0 0.0625 0 0.0625 0 0.0625 0 0.0625 0 0.0625 0 0.0625 0
// expect 1: f32 0.0625 0 0.0625 0 0.0625 0 0.0625 0 0.0625 0 0 0.0625 0 0.0625 0 0.0625 0 0.0625 0 0.0625 0 0.0625 0
// expect 1: f32 0.0625 0 0.0625 0 0.0625 0 0.0625 0 0.0625 0 0.0625 0 0.0625 0 0.0625 0 0.0625 0 0.0625 0.0625 0
// expect 1: f32 0.0625 0 0.0625 0 0.0625 0 0.0625 0 0.0625 0 0.0625 0 0.0625 0 0.0625 0 0.0625 0 0.0625 0 0.0625 0
// expect 1: f32 0.0625 0 0.0625 0 0.0625 0 0.0625 0 0 0.0625 0 0.0625 0 0.0625 0 0.0625 0 0.0625 0 0.0625 0 0.0625 0
// expect 1: f32 0.0625 0 0.0625 0 0.0625 0 0.0625 0 0.0625 0 0.0625 0 0.0625 0 0.0625 0 0.0625

#include "prelude.cuh"

extern "C" __global__ void softmax(const float* in, float* out) {
    int row = blockIdx.x * 2 + threadIdx.x / 32, lane = threadIdx.x % 32, i = row * 32 + lane;
    float x = (lane + row) % 2 == 0 ? in[i] : -INFINITY;
    float p = expf(x - warp_max(x));
    out[i] = p / warp_sum(p);
}
