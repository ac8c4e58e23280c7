// With one product left in flight, its own tiles are freed, not those of the one before.
//
// arch: compute_90a
// launch: grid=1 block=160
// args: f16[2048]=iota f16[256]=iota i32[128]=zeros
// bug: shared race

#include "wgmma.cuh"

// Copies contiguous bytes.
__device__ __forceinline__ void load_tile(void* to, const void* from, unsigned bytes, Barrier* barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 ::"r"(shared_address(to)), "l"(__cvta_generic_to_global(from)), "r"(bytes),
                 "r"(shared_address(barrier)) : "memory");  // BUG
}

// d += a b, 64 by 8, of 16 products for each sum.
__device__ __forceinline__ void multiply(float (&d)[4], unsigned long long a, unsigned long long b) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(a), "l"(b) : "memory");  // BUG
}

extern "C" __global__ void product(const f16* a, const f16* b, int* out) {
    __shared__ alignas(128) f16 a_tile[2][1024], b_tile[2][128];
    __shared__ Barrier full[2], empty[2];
    int t = threadIdx.x;
    if (t == 0) {
        for (int stage = 0; stage < 2; stage++) {
            mbarrier_init(&full[stage], 1);
            mbarrier_init(&empty[stage], 128);
        }
        fence_mbarrier_init();
    }
    __syncthreads();
    if (t >= 128) {
        for (int k = 0; k < 4 && t == 128; k++) {  // the producer
            int stage = k % 2;
            mbarrier_wait(&empty[stage], k / 2 ^ 1);
            mbarrier_arrive_expect_tx(&full[stage], 2048 + 256);
            load_tile(a_tile[stage], a + 1024 * (k % 2), 2048, &full[stage]);
            load_tile(b_tile[stage], b + 128 * (k / 2), 256, &full[stage]);
        }
        return;
    }
    float sums[4] = {};
    pin(sums);
    wgmma_fence();
    for (int k = 0; k < 4; k++) {
        int stage = k % 2;
        mbarrier_wait(&full[stage], k / 2);
        multiply(sums, plain_tile(a_tile[stage]), plain_tile(b_tile[stage]));
        wgmma_commit_group();
        wgmma_wait_group<1>();
        mbarrier_arrive(&empty[stage]);
    }
    wgmma_wait_group<0>();
    pin(sums);
    out[t] = int(sums[0]) + 2 * int(sums[1]) + 3 * int(sums[2]) + 4 * int(sums[3]);
}
