// Initialises the barrier without a fence, so another block's copy may not find it.
//
// arch: compute_90a
// launch: grid=8 block=64
// args: i32[128]=iota i32[512]=zeros
// bug: unseen mbarrier

#include "cluster.cuh"

// Copies contiguous bytes to the same place in each block of the mask.
__device__ __forceinline__ void load_for_all(void* to, const void* from, unsigned bytes, Barrier* barrier, int mask) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], %4;"
        ::"r"(shared_address(to)), "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(shared_address(barrier)),
        "h"(static_cast<unsigned short>(mask)) : "memory");  // BUG
}

extern "C" __global__ __cluster_dims__(4, 1, 1) void reverse(const int* in, int* out) {
    __shared__ alignas(16) int tile[64];
    __shared__ Barrier full;
    int t = threadIdx.x;
    if (t == 0) mbarrier_init(&full, 1);  // BUG
    cluster_sync();
    if (t == 0) {
        mbarrier_arrive_expect_tx(&full, sizeof(tile));
        if (cluster_rank() == 0) load_for_all(tile, in + 64 * (blockIdx.x / 4), sizeof(tile), &full, 0xf);
    }
    mbarrier_wait_cluster(&full, 0);
    out[64 * blockIdx.x + t] = tile[63 - t];
}
