// The 16-bit element types as tensor cores take them: the instructions that differ, and f32 numbers
// as sums.

#pragma once

#include "cache.cuh"
#include "stage4-flash-cuda/mma.cuh"

template <typename Element>
struct Tensor;

template <>
struct Tensor<f16> {
    static constexpr int TERMS = 2;     // of a sum that has 22 binary digits of an f32
    static constexpr int EXPONENT = 14; // of the largest terms: small ones lose digits below 2^-14

    static __device__ __forceinline__ unsigned round_pair(float low, float high) {
        return cvt_rn_f16x2_f32(low, high);
    }

    static __device__ __forceinline__ void mma(
        float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1, const float (&c)[4]
    ) {
        mma_m16n8k16(d, a, b0, b1, c);
    }
};

template <>
struct Tensor<bf16> {
    static constexpr int TERMS = 3;     // of a sum that has all 24 binary digits
    static constexpr int EXPONENT = 0;

    static __device__ __forceinline__ unsigned round_pair(float low, float high) {
        unsigned bits;
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
        return bits;
    }

    static __device__ __forceinline__ void mma(
        float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1, const float (&c)[4]
    ) {
        asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
            "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
            : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(c[0]), "f"(c[1]), "f"(c[2]),
              "f"(c[3]));
    }
};

constexpr int TERMS = Tensor<ELEMENT>::TERMS;

// Rounds two values, and then what that leaves of them, again and again: the sum of the terms is
// the f32 number in bf16, and its first 22 binary digits in f16.
__device__ __forceinline__ void terms_of(float low, float high, unsigned (&terms)[TERMS]) {
#pragma unroll
    for (unsigned& term : terms) {
        term = Tensor<ELEMENT>::round_pair(low, high);
        low -= ELEMENT::widen(static_cast<Bits>(term));
        high -= ELEMENT::widen(static_cast<Bits>(term >> 16));
    }
}
