// Elements of tensors in f32, f16 or bf16, for a kernel that computes in f32.

#pragma once

#include "half.cuh"

__device__ __forceinline__ float widened(float x) { return x; }

__device__ __forceinline__ float widened(f16 x) {
    float wide;
    asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(x.bits));
    return wide;
}

__device__ __forceinline__ float widened(bf16 x) {
    return __uint_as_float(static_cast<unsigned>(x.bits) << 16);
}

// The nearest element to a value, ties to even.
template <typename T>
__device__ __forceinline__ T rounded(float x);

template <>
__device__ __forceinline__ float rounded<float>(float x) {
    return x;
}

template <>
__device__ __forceinline__ f16 rounded<f16>(float x) {
    f16 element;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(element.bits) : "f"(x));
    return element;
}

// In integers: compute capability 7.5 has no instruction for it.
template <>
__device__ __forceinline__ bf16 rounded<bf16>(float x) {
    const unsigned bits = __float_as_uint(x);
    return {static_cast<unsigned short>(x != x ? 0x7fff : (bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}
