// A block ends while its bulk copy to another block may still read its shared memory.
//
// arch: compute_90a
// launch: grid=2 block=64
// args: i32[64]=iota i32[64]=zeros
// bug: unfinished bulk copy

#include "cluster.cuh"

// Sends bytes to the block of this rank.
__device__ __forceinline__ void send_tile(int* to, const int* from, Barrier* barrier, unsigned rank) {
    asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], 256, [%2];"
                 ::"r"(shared_address_on(to, rank)), "r"(shared_address(from)), "r"(shared_address_on(barrier, rank))  // BUG
                 : "memory");
}

extern "C" __global__ __cluster_dims__(2, 1, 1) void send(const int* in, int* out) {
    __shared__ alignas(16) int from[64], tile[64];
    __shared__ Barrier full;
    int t = threadIdx.x, rank = cluster_rank();
    from[t] = in[t];
    if (t == 0) {
        mbarrier_init(&full, 1);
        mbarrier_arrive_expect_tx(&full, 256);
    }
    fence_proxy_async();
    cluster_sync();
    if (rank == 0 && t == 0) send_tile(tile, from, &full, 1);
    if (rank == 1) {
        mbarrier_wait_cluster(&full, 0);
        out[t] = tile[63 - t];
    }
}
