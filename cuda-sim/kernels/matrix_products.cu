// Adds the product of two small matrices to a third one, again and again, on tensor cores.
//
// grid: any; block: one warp, which computes the whole of d for itself; shared: none
// reads a [16, 16], b [64, 16], adds to d [blocks, 16, 64], in the fragments of mma.sync m16n8k16
// arch: compute_80
#include "prelude.cuh"

constexpr int PRODUCTS = 8;

__device__ void mma_m16n8k16(float4& d, uint4 a, uint2 b) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d.x), "+f"(d.y), "+f"(d.z), "+f"(d.w)
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b.x), "r"(b.y));
}

extern "C" __global__ void matrix_products(const uint4* a,  // [32]: fragments, one per lane
                                           const uint2* b,  // [8, 32]: of 8 columns each
                                           float4* d,       // [blocks, 8, 32]
                                           int times) {
    uint2 b_reg[PRODUCTS];
    float4 d_reg[PRODUCTS];
    uint4 a_reg = a[threadIdx.x];
    float4* out = d + blockIdx.x * PRODUCTS * 32 + threadIdx.x;
    for (int i = 0; i < PRODUCTS; ++i) {
        b_reg[i] = b[i * 32 + threadIdx.x];
        d_reg[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    }
#pragma unroll 1
    for (int step = 0; step < times; ++step) {
#pragma unroll
        for (int i = 0; i < PRODUCTS; ++i) {
            mma_m16n8k16(d_reg[i], a_reg, b_reg[i]);
        }
    }
    for (int i = 0; i < PRODUCTS; ++i) {
        out[i * 32] = d_reg[i];
    }
}
