// Warps free the tiles for the blocks of their row, but the other block of the column loads into
// them too.
//
// arch: compute_90a
// launch: grid=4,2 block=96
// args: i32[768]=iota i32[1536]=iota i32[512]=zeros
// bug: shared race

#include "cluster.cuh"

// Copies contiguous bytes to the same place in each block of the mask.
__device__ __forceinline__ void load_for_all(void* to, const void* from, unsigned bytes, Barrier* barrier, int mask) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], %4;"
        ::"r"(shared_address(to)), "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(shared_address(barrier)),
        "h"(static_cast<unsigned short>(mask)) : "memory");  // BUG
}

extern "C" __global__ __cluster_dims__(2, 2, 1) void products(const int* a, const int* b, int* out) {
    __shared__ alignas(16) int tile_a[2][64], tile_b[2][64];
    __shared__ Barrier full[2], empty[2];
    int t = threadIdx.x, x = blockIdx.x % 2, y = blockIdx.y % 2;
    if (t == 0) {
        for (int s = 0; s < 2; s++) {
            mbarrier_init(&full[s], 1);
            mbarrier_init(&empty[s], 4);  // two warps in each of two blocks
        }
        fence_mbarrier_init();
    }
    cluster_sync();
    if (t == 64) {  // half of a tile of A for the blocks of the row, and half of one of B for those of the column
        for (int k = 0; k < 6; k++) {
            int s = k % 2, half = sizeof(tile_a[s]) / 2;
            mbarrier_wait_cluster(&empty[s], k / 2 % 2 ^ 1);
            mbarrier_arrive_expect_tx(&full[s], 4 * half);
            load_for_all(tile_a[s] + 32 * x, a + 64 * (6 * blockIdx.y + k) + 32 * x, half, &full[s], 3 << 2 * y);
            load_for_all(tile_b[s] + 32 * y, b + 64 * (6 * blockIdx.x + k) + 32 * y, half, &full[s], 5 << x);
        }
    } else if (t < 64) {
        int sum = 0, rank = t % 32;
        for (int k = 0; k < 6; k++) {
            int s = k % 2;
            mbarrier_wait_cluster(&full[s], k / 2 % 2);
            sum += tile_a[s][t] * tile_b[s][63 - t];  // BUG
            __syncwarp();
            if (rank < 4 && rank / 2 == y) mbarrier_arrive_on(&empty[s], rank);
        }
        out[64 * (4 * blockIdx.y + blockIdx.x) + t] = sum;
    }
    __syncwarp();
    cluster_sync();
}
