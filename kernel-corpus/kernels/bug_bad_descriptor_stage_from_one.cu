// The stages are counted from 1, so that the last product reads behind the last tile.
//
// arch: compute_90a
// launch: grid=1 block=128
// args: f16[2048]=iota f16[256]=iota i32[128]=zeros
// bug: bad descriptor

#include "wgmma.cuh"

// d += a b, 64 by 8, of 16 products for each sum.
__device__ __forceinline__ void multiply(float (&d)[4], unsigned long long a, unsigned long long b) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(a), "l"(b) : "memory");  // BUG
}

extern "C" __global__ void product(const f16* a, const f16* b, int* out) {
    __shared__ alignas(128) f16 tiles[2][1024 + 128];
    int t = threadIdx.x;
    for (int i = t; i < 2048; i += 128) tiles[i / 1024][i % 1024] = a[i];
    for (int i = t; i < 256; i += 128) tiles[i / 128][1024 + i % 128] = b[i];
    fence_proxy_async();
    __syncthreads();
    float sums[4] = {};
    pin(sums);
    wgmma_fence();
    for (int stage = 1; stage <= 2; stage++) multiply(sums, plain_tile(tiles[stage]), plain_tile(tiles[stage] + 1024));
    wgmma_commit_group();
    wgmma_wait_group<0>();
    pin(sums);
    out[t] = int(sums[0]) + 2 * int(sums[1]) + 3 * int(sums[2]) + 4 * int(sums[3]);
}
