// Two products are in flight, and the wait leaves both there.
//
// arch: compute_90a
// launch: grid=1 block=128
// args: f16[1024]=iota f16[256]=iota i32[256]=zeros
// bug: product in flight

#include "wgmma.cuh"

// d += a b, 64 by 8, of 16 products for each sum.
__device__ __forceinline__ void multiply(float (&d)[4], unsigned long long a, unsigned long long b) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(a), "l"(b) : "memory");
}

extern "C" __global__ void products(const f16* a, const f16* b, int* out) {
    __shared__ alignas(128) f16 a_tile[1024], b_tile[2][128];
    int t = threadIdx.x;
    for (int i = t; i < 1024; i += 128) a_tile[i] = a[i];
    for (int i = t; i < 256; i += 128) b_tile[i / 128][i % 128] = b[i];
    fence_proxy_async();
    __syncthreads();
    float first[4] = {}, second[4] = {};
    pin(first);
    pin(second);
    wgmma_fence();
    multiply(first, plain_tile(a_tile), plain_tile(b_tile[0]));
    wgmma_commit_group();
    multiply(second, plain_tile(a_tile), plain_tile(b_tile[1]));
    wgmma_commit_group();
    wgmma_wait_group<2>();
    pin(first);
    out[t] = int(first[0]) + 2 * int(first[1]) + 3 * int(first[2]) + 4 * int(first[3]);  // BUG
    wgmma_wait_group<0>();
    pin(second);
    out[128 + t] = int(second[0]) + 2 * int(second[1]) + 3 * int(second[2]) + 4 * int(second[3]);
}
