// Arrives at the other block's barrier before a barrier of the cluster has made its initialisation
// visible.
//
// arch: compute_90a
// launch: grid=4 block=32
// args: i32[128]=iota i32[128]=zeros
// bug: bad mbarrier

#include "cluster.cuh"

// Arrives at the barrier of the block of this rank.
__device__ __forceinline__ void arrive_on(Barrier* barrier, unsigned rank) {
    asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];"
                 ::"r"(shared_address_on(barrier, rank)) : "memory");  // BUG
}

extern "C" __global__ __cluster_dims__(2, 1, 1) void swap(const int* in, int* out) {
    __shared__ int inbox[32];
    __shared__ Barrier full;
    int t = threadIdx.x, rank = cluster_rank();
    inbox[t] = 0;
    cluster_sync();
    if (t == 0) {
        mbarrier_init(&full, 32);  // BUG
        fence_mbarrier_init();
    }
    __syncthreads();
    on_rank(inbox, rank ^ 1)[t] = in[32 * blockIdx.x + t];
    arrive_on(&full, rank ^ 1);
    mbarrier_wait_cluster(&full, 0);
    out[32 * blockIdx.x + t] = inbox[31 - t];
    cluster_sync();
}
