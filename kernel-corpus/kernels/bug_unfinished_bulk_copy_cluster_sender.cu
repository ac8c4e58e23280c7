// A block ends while its bulk copy to another block may still read its shared memory.
//
// arch: compute_90a
// launch: grid=2 block=64
// args: i32[64]=iota i32[64]=zeros
// bug: unfinished bulk copy

#include "cluster.cuh"

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
    if (rank == 0 && t == 0) bulk_send(tile, from, 256, &full, 1);  // BUG
    if (rank == 1) {
        mbarrier_wait_cluster(&full, 0);
        out[t] = tile[63 - t];
    }
}
