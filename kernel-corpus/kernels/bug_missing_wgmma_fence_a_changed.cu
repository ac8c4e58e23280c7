// The registers of A are changed, and no fence stands before the product that reads them.
//
// arch: compute_90a
// launch: grid=1 block=128
// args: f16[1024]=iota f16[128]=iota i32[128]=zeros
// bug: missing wgmma fence

#include "wgmma.cuh"

// d += a b, 64 by 8, of 16 products for each sum; A lies in registers.
__device__ __forceinline__ void multiply(float (&d)[4], unsigned (&a)[4], unsigned long long b) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, {%4, %5, %6, %7}, %8, 1, 1, 1, 0;"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b) : "memory");  // BUG
}

extern "C" __global__ void product(const unsigned* a, const f16* b, int* out) {
    __shared__ alignas(128) f16 b_tile[128];
    int t = threadIdx.x;
    b_tile[t] = b[t];
    fence_proxy_async();
    __syncthreads();
    unsigned parts[4];  // pairs of elements: rows and columns as of the results
    for (int i = 0; i < 4; i++) parts[i] = a[8 * row(2 * i) + column(4 * (i / 2)) / 2];
    float sums[4] = {};
    pin(parts);
    pin(sums);
    wgmma_fence();
    multiply(sums, parts, plain_tile(b_tile));
    wgmma_commit_group();
    wgmma_wait_group<0>();
    for (unsigned& x : parts) asm volatile("add.rn.f16x2 %0, %0, %0;" : "+r"(x)::"memory");  // BUG
    multiply(sums, parts, plain_tile(b_tile));
    wgmma_commit_group();
    wgmma_wait_group<0>();
    pin(sums);
    out[t] = int(sums[0]) + 2 * int(sums[1]) + 3 * int(sums[2]) + 4 * int(sums[3]);
}
