// Sums of equal weights in f32, f16 and bf16: in the short formats the sum stops growing.
//
// Idea: 4,096 weights of 2^-12 add up to 1. A sum in f16 has 11 bits: at 0.5 its step is 2^-11, a
// weight is half of that, and the tie is rounded down. Shown by `gpu trace`, for the book.
// Grid: 1. Block: 32 threads, one warp. Lane i adds the first 128 (i + 1) weights.
// Writes: sums[format][i].
//
// launch: grid=1 block=32
// args: f32[96]=uninit
#include "prelude.cuh"

extern "C" __global__ void rounded_sums(float* sums) {  // [3, 32] f32
    const float weight = 1.0f / 4096.0f;
    float f32_sum = 0.0f, f16_sum = 0.0f, bf16_sum = 0.0f;
    for (int n = 0; n < 128 * (static_cast<int>(threadIdx.x) + 1); n++) {
        // ANCHOR: add
        f32_sum += weight;
        f16_sum = cvt_f32_f16(cvt_rn_f16_f32(f16_sum + weight));
        bf16_sum = f32_from_bf16(bf16_from_f32(bf16_sum + weight));
        // ANCHOR_END: add
    }
    sums[threadIdx.x] = f32_sum;
    sums[32 + threadIdx.x] = f16_sum;
    sums[64 + threadIdx.x] = bf16_sum;
}
