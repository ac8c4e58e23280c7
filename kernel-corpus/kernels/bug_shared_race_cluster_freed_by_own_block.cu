// The barrier of free tiles counts the warps of its own block alone, so a tile may be loaded that
// the other reads.
//
// arch: compute_90a
// launch: grid=4 block=96
// args: i32[1536]=iota i32[384]=iota i32[256]=zeros
// bug: shared race

#include "cluster.cuh"

// Copies contiguous bytes to the same place in each block of the mask.
__device__ __forceinline__ void load_for_all(void* to, const void* from, unsigned bytes, Barrier* barrier, int mask) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], %4;"
        ::"r"(shared_address(to)), "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(shared_address(barrier)),
        "h"(static_cast<unsigned short>(mask)) : "memory");  // BUG
}

extern "C" __global__ __cluster_dims__(2, 1, 1) void products(const int* a, const int* b, int* out) {
    __shared__ alignas(16) int tile[2][64];
    __shared__ Barrier full[2], empty[2];
    int t = threadIdx.x, rank = cluster_rank();
    if (t == 0) {
        for (int s = 0; s < 2; s++) {
            mbarrier_init(&full[s], 1);
            mbarrier_init(&empty[s], 2);
        }
        fence_mbarrier_init();
    }
    cluster_sync();
    if (t == 64) {  // the producer loads half of each tile, for both blocks
        for (int k = 0; k < 6; k++) {
            int s = k % 2;
            mbarrier_wait_cluster(&empty[s], k / 2 % 2 ^ 1);
            mbarrier_arrive_expect_tx(&full[s], sizeof(tile[s]));
            load_for_all(tile[s] + 32 * rank, b + 64 * k + 32 * rank, sizeof(tile[s]) / 2, &full[s], 3);
        }
    } else if (t < 64) {
        int sum = 0;
        for (int k = 0; k < 6; k++) {
            int s = k % 2;
            mbarrier_wait_cluster(&full[s], k / 2 % 2);
            sum += a[64 * (6 * blockIdx.x + k) + t] * tile[s][63 - t];  // BUG
            __syncwarp();
            if (t % 32 == 0) mbarrier_arrive(&empty[s]);
        }
        out[64 * blockIdx.x + t] = sum;
    }
    __syncwarp();
    cluster_sync();
}
