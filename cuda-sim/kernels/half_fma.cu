// Adds the products of two vectors to a third one, element by element, again
// and again, in pairs of f16.
//
// grid: one thread for 8 elements; block: any; shared: none
// reads x [8 · threads], y [8 · threads], writes sums [8 · threads]
#include "prelude.cuh"

constexpr int PAIRS = 4;

__device__ void fma_f16x2(unsigned& sum, unsigned x, unsigned y) {
    asm("fma.rn.f16x2 %0, %1, %2, %0;" : "+r"(sum) : "r"(x), "r"(y));
}

__device__ float2 floats(unsigned pair) {
    float2 x;
    asm("{ .reg .b16 low, high; mov.b32 {low, high}, %2; cvt.f32.f16 %0, low; cvt.f32.f16 %1, high; }"
        : "=f"(x.x), "=f"(x.y)
        : "r"(pair));
    return x;
}

extern "C" __global__ void half_fma(const uint4* x,  // [threads, 8] f16
                                    const uint4* y,  // [threads, 8] f16
                                    float2* sums,    // [threads, 8] f32
                                    int times) {
    int thread = blockIdx.x * blockDim.x + threadIdx.x;
    uint4 x_reg = x[thread], y_reg = y[thread];
    unsigned sums_reg[PAIRS] = {0, 0, 0, 0};
#pragma unroll 1
    for (int step = 0; step < times; ++step) {
        fma_f16x2(sums_reg[0], x_reg.x, y_reg.x);
        fma_f16x2(sums_reg[1], x_reg.y, y_reg.y);
        fma_f16x2(sums_reg[2], x_reg.z, y_reg.z);
        fma_f16x2(sums_reg[3], x_reg.w, y_reg.w);
    }
    for (int i = 0; i < PAIRS; ++i) {
        sums[PAIRS * thread + i] = floats(sums_reg[i]);
    }
}
