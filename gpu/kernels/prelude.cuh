// Functions for the kernels of every package: INFINITY, 16-bit float conversions, a few
// instructions by name, warp reductions.
//
// Include it as "prelude.cuh". The compiler gets it in memory, as it gets headers beside a kernel
// and those of lower packages ("<package>/<file>.cuh"). No CUDA header is needed. A function that
// is one PTX instruction has that instruction's name, so that the PTX can be read beside it.

#pragma once

// A macro because the C++ standard has it as one; a constexpr variable would leave a
// .global in every module.
#define INFINITY __builtin_bit_cast(float, 0x7f800000)

// 2^x, 2 ulp; subnormal inputs and results become zero. ex2(-inf) = 0.
__device__ __forceinline__ float ex2_approx_ftz_f32(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// log2(x), absolute error 2^-22; subnormal inputs become zero. lg2(0) = -inf.
__device__ __forceinline__ float lg2_approx_ftz_f32(float x) {
    float y;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// 1 / x, 1 ulp; subnormal inputs and results become zero. rcp(0) = inf.
__device__ __forceinline__ float rcp_approx_ftz_f32(float x) {
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// tanh(x), relative error 2^-11.
__device__ __forceinline__ float tanh_approx_f32(float x) {
    float y;
    asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// The value of an f16, given as its 16 bits. Exact.
__device__ __forceinline__ float cvt_f32_f16(unsigned short bits) {
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(bits));
    return y;
}

// The bits of the f16 nearest to x, ties to even; beyond 65504 infinity.
__device__ __forceinline__ unsigned short cvt_rn_f16_f32(float x) {
    unsigned short bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bits;
}

// The value of a bf16, given as its 16 bits: they are the upper half of the f32. Exact.
// (cvt.f32.bf16 needs compute 9.0.)
__device__ __forceinline__ float f32_from_bf16(unsigned short bits) {
    return __uint_as_float(static_cast<unsigned>(bits) << 16);
}

// The bits of the bf16 nearest to x, ties to even; a NaN stays a NaN.
// (cvt.rn.bf16.f32 needs compute 8.0.)
__device__ __forceinline__ unsigned short bf16_from_f32(float x) {
    unsigned bits = __float_as_uint(x);
    if (x != x) return static_cast<unsigned short>((bits >> 16) | 0x40u);  // quiet: truncating could leave infinity
    unsigned round = 0x7fffu + ((bits >> 16) & 1u);
    return static_cast<unsigned short>((bits + round) >> 16);
}

// The largest x of the warp's 32 lanes, in every lane. All 32 must call it. A NaN counts as absent.
__device__ __forceinline__ float warp_max(float x) {
    for (int distance = 16; distance > 0; distance /= 2) {
        x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, distance));
    }
    return x;
}

// The sum of x over the warp's 32 lanes, the same in every lane. All 32 must call it.
__device__ __forceinline__ float warp_sum(float x) {
    for (int distance = 16; distance > 0; distance /= 2) {
        x += __shfl_xor_sync(0xffffffffu, x, distance);
    }
    return x;
}
