// One warp of the warpgroup waits for the tiles that all four multiply.
//
// arch: compute_90a
// launch: grid=1 block=128
// args: f16[1024]=iota f16[128]=iota i32[128]=zeros
// bug: shared race

#include "wgmma.cuh"

// d += a b, 64 by 8, of 16 products for each sum.
__device__ __forceinline__ void multiply(float (&d)[4], unsigned long long a, unsigned long long b) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(a), "l"(b) : "memory");  // BUG
}

extern "C" __global__ void product(const f16* a, const f16* b, int* out) {
    __shared__ alignas(128) f16 a_tile[1024], b_tile[128];
    __shared__ Barrier full;
    int t = threadIdx.x;
    if (t == 0) {
        mbarrier_init(&full, 1);
        fence_mbarrier_init();
    }
    __syncthreads();
    if (t == 0) {
        mbarrier_arrive_expect_tx(&full, sizeof(a_tile) + sizeof(b_tile));
        bulk_load(a_tile, a, sizeof(a_tile), &full);
        bulk_load(b_tile, b, sizeof(b_tile), &full);
    }
    if (t < 32) mbarrier_wait(&full, 0);
    float sums[4] = {1.0f, 1.0f, 1.0f, 1.0f};
    pin(sums);
    wgmma_fence();
    multiply(sums, plain_tile(a_tile), plain_tile(b_tile));
    wgmma_commit_group();
    wgmma_wait_group<0>();
    pin(sums);
    out[t] = int(sums[0]) + 2 * int(sums[1]) + 3 * int(sums[2]) + 4 * int(sums[3]);
}
