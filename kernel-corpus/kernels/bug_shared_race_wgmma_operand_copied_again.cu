// The tiles of the next product are copied while the one before may still read its own there.
//
// arch: compute_90a
// launch: grid=1 block=128
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
    __shared__ alignas(128) f16 a_tile[1024], b_tile[128];
    __shared__ Barrier full;
    int t = threadIdx.x;
    if (t == 0) {
        mbarrier_init(&full, 1);
        fence_mbarrier_init();
    }
    __syncthreads();
    float sums[4] = {};
    for (int k = 0; k < 2; k++) {
        if (t == 0) {
            mbarrier_arrive_expect_tx(&full, sizeof(a_tile) + sizeof(b_tile));
            load_tile(a_tile, a + 1024 * k, sizeof(a_tile), &full);
            load_tile(b_tile, b + 128 * k, sizeof(b_tile), &full);
        }
        __syncwarp();
        mbarrier_wait(&full, k);
        pin(sums);
        wgmma_fence();
        multiply(sums, plain_tile(a_tile), plain_tile(b_tile));
        wgmma_commit_group();
        __syncthreads();  // so that the next copies do not overwrite what the product of a warp still reads
    }
    wgmma_wait_group<0>();
    pin(sums);
    out[t] = int(sums[0]) + 2 * int(sums[1]) + 3 * int(sums[2]) + 4 * int(sums[3]);
}
