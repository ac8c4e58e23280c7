// Initialises a barrier, fence.mbarrier_init, relaxed arrival at the barrier of the cluster; then
// the other block arrives at it.
//
// arch: compute_90a
// launch: grid=2 block=32
// args: i32[64]=iota i32[64]=zeros
// bug: none
// expect 1: i32 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 0 1 2 3 4 5 6
// expect 1: i32 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31

#include "cluster.cuh"

extern "C" __global__ __cluster_dims__(2, 1, 1) void wait_for_the_other(const int* in, int* out) {
    __shared__ Barrier full;
    int t = threadIdx.x, rank = cluster_rank();
    if (t == 0) {
        mbarrier_init(&full, 32);
        fence_mbarrier_init();
    }
    __syncwarp();
    cluster_arrive_relaxed();
    cluster_wait();
    mbarrier_arrive_on(&full, rank ^ 1);
    mbarrier_wait_cluster(&full, 0);
    out[32 * rank + t] = in[t];
    cluster_sync();
}
