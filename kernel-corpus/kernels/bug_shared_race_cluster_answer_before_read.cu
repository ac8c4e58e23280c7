// The receiving block answers before its other threads have read the tile.
//
// arch: compute_90a
// launch: grid=4 block=64
// args: i32[768]=iota i32[768]=zeros
// bug: shared race

#include "cluster.cuh"

// Copies contiguous bytes into the shared memory of the block of this rank.
__device__ __forceinline__ void send(void* to, const void* from, unsigned bytes, Barrier* barrier, unsigned rank) {
    asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 ::"r"(shared_address_on(to, rank)), "r"(shared_address(from)), "r"(bytes),
                 "r"(shared_address_on(barrier, rank)) : "memory");  // BUG
}

extern "C" __global__ __cluster_dims__(2, 1, 1) void triple(const int* in, int* out) {
    __shared__ alignas(16) int staged[2][64], tile[2][64];
    __shared__ Barrier full[2], empty[2];
    int t = threadIdx.x, rank = cluster_rank();
    if (t < 2) {
        mbarrier_init(&full[t], 1);
        mbarrier_init(&empty[t], 1);
        fence_mbarrier_init();
    }
    cluster_sync();
    for (int k = 0; k < 6; k++) {
        int s = k % 2, i = 64 * (6 * (blockIdx.x / 2) + k) + t;
        if (rank == 0) {
            mbarrier_wait_cluster(&empty[s], k / 2 % 2 ^ 1);
            staged[s][t] = 3 * in[i];
            fence_proxy_async();
            __syncthreads();
            if (t == 0) send(tile[s], staged[s], sizeof(tile[s]), &full[s], 1);
        } else {
            if (t == 0) mbarrier_arrive_expect_tx(&full[s], sizeof(tile[s]));
            mbarrier_wait_cluster(&full[s], k / 2 % 2);
            if (t == 0) mbarrier_arrive_on(&empty[s], 0);
            out[i] = tile[s][63 - t];  // BUG
        }
    }
    cluster_sync();
}
