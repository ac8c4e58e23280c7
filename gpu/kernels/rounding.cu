// Largest relative error of rounding to f16, bf16 and tf32, for numbers of each magnitude.
//
// Idea: a format with m bits behind the leading one rounds by at most 2^-(m + 1) of the number.
// f16 has fewer exponents: below 2^-14 it loses bits one by one, and from 65,520 on there is
// infinity. Shown by `gpu trace`, for the book.
// Grid: 1. Block: 32 threads, one warp. A lane has the numbers from 2^e to 2^(e + 1), for two e.
// Writes: errors[format][e + 32], for e from -32 to 31.
//
// arch: compute_80
// launch: grid=1 block=32
// args: f32[192]=uninit
#include "prelude.cuh"

constexpr int STEPS = 97;  // numbers of each magnitude

// The tf32 nearest to x.
__device__ float tf32(float x) {
    unsigned bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
    return __uint_as_float(bits);
}

extern "C" __global__ void rounding(float* errors) {  // [3, 64] f32
    for (int e = static_cast<int>(threadIdx.x) - 32; e < 32; e += 32) {
        float f16_error = 0.0f, bf16_error = 0.0f, tf32_error = 0.0f;
        const float power = __uint_as_float(static_cast<unsigned>(e + 127) << 23);  // 2^e
        for (int step = 0; step < STEPS; step++) {
            const float x = power * (1.0f + static_cast<float>(step) / STEPS);
            f16_error = fmaxf(f16_error, fabsf(cvt_f32_f16(cvt_rn_f16_f32(x)) - x) / x);
            bf16_error = fmaxf(bf16_error, fabsf(f32_from_bf16(bf16_from_f32(x)) - x) / x);
            tf32_error = fmaxf(tf32_error, fabsf(tf32(x) - x) / x);
        }
        errors[e + 32] = f16_error;
        errors[64 + e + 32] = bf16_error;
        errors[128 + e + 32] = tf32_error;
    }
}
