// Only the first warp of a block comes to the barrier of the cluster; the second waits for it at
// one of the block.
//
// arch: compute_90a
// launch: grid=2 block=64
// args: i32[128]=iota i32[128]=zeros
// bug: deadlock

#include "cluster.cuh"

extern "C" __global__ __cluster_dims__(2, 1, 1) void other_block(const int* in, int* out) {
    __shared__ int tile[64];
    int t = threadIdx.x, rank = cluster_rank();
    tile[t] = in[64 * blockIdx.x + t];
    __syncthreads();
    if (t < 32) asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");  // BUG
    __syncthreads();  // BUG
    out[64 * blockIdx.x + t] = on_rank(tile, rank ^ 1)[63 - t];
    cluster_sync();
}
