// A block may end before the other's arrival at its barrier: nobody waits for it.
//
// arch: compute_90a
// launch: grid=4 block=32
// args: i32[128]=iota i32[128]=zeros
// bug: bad cluster

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
    if (t == 0) {
        mbarrier_init(&full, 32);
        fence_mbarrier_init();
    }
    cluster_sync();
    on_rank(inbox, rank ^ 1)[t] = in[32 * blockIdx.x + t];  // BUG
    arrive_on(&full, rank ^ 1);
    if (rank == 0) return;  // it reads nothing
    mbarrier_wait_cluster(&full, 0);
    out[32 * blockIdx.x + t] = inbox[31 - t];
}
