// A second wait at the barrier of the cluster, with no arrival before.
//
// arch: compute_90a
// launch: grid=4 block=32
// args: i32[128]=iota i32[128]=zeros
// bug: bad cluster

#include "cluster.cuh"

extern "C" __global__ __cluster_dims__(2, 1, 1) void exchange(const int* in, int* out) {
    __shared__ int inbox[32];
    int t = threadIdx.x;
    cluster_sync();
    on_rank(inbox, cluster_rank() ^ 1)[t] = in[32 * blockIdx.x + t];
    cluster_arrive();
    cluster_wait();
    asm volatile("barrier.cluster.wait.aligned;" ::: "memory");  // BUG
    out[32 * blockIdx.x + t] = inbox[31 - t];
}
