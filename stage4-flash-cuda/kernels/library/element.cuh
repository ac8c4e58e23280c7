// Elements of tensors in f32, f16 or bf16, for a kernel that computes in f32.

#pragma once

#include "half.cuh"
#include "prelude.cuh"

__device__ __forceinline__ float widened(float x) { return x; }
__device__ __forceinline__ float widened(f16 x) { return cvt_f32_f16(x.bits); }
__device__ __forceinline__ float widened(bf16 x) { return f32_from_bf16(x.bits); }

// The nearest element to a value, ties to even.
template <typename T>
__device__ __forceinline__ T rounded(float x);

template <>
__device__ __forceinline__ float rounded<float>(float x) { return x; }

template <>
__device__ __forceinline__ f16 rounded<f16>(float x) { return {cvt_rn_f16_f32(x)}; }

template <>
__device__ __forceinline__ bf16 rounded<bf16>(float x) { return {bf16_from_f32(x)}; }
