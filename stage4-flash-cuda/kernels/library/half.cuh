// The element types of 16 bits: their bits, and the instructions that differ.

#pragma once

#include "mma.cuh"

// Starts a copy of 16 bytes to OFFSET bytes behind a target.
template <int OFFSET>
__device__ __forceinline__ void cp_async_cg_shared_global_16(unsigned target_smem, const void* source) {
    asm volatile("cp.async.cg.shared.global [%0 + %2], [%1], 16;" ::"r"(target_smem), "l"(source), "n"(OFFSET) : "memory");
}

struct f16 {
    unsigned short bits;

    // d = a b + c, with sums in f32.
    static __device__ __forceinline__ void mma_m16n8k16(
        float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1, const float (&c)[4]
    ) {
        ::mma_m16n8k16(d, a, b0, b1, c);
    }

    // The nearest to each of two values, ties to even; `low` in the lower half.
    static __device__ __forceinline__ unsigned round_pair(float low, float high) {
        return cvt_rn_f16x2_f32(low, high);
    }
};

struct bf16 {
    unsigned short bits;

    static __device__ __forceinline__ void mma_m16n8k16(
        float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1, const float (&c)[4]
    ) {
        asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
            "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
            : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(c[0]), "f"(c[1]), "f"(c[2]),
              "f"(c[3]));
    }

    static __device__ __forceinline__ unsigned round_pair(float low, float high) {
        unsigned bits;
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
        return bits;
    }
};
