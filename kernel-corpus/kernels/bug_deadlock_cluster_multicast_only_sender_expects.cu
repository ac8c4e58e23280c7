// Only the block that loads the tile for all expects its bytes, so the barriers of the others lack
// an arrival.
//
// arch: compute_90a
// launch: grid=8 block=64
// args: i32[128]=iota i32[512]=zeros
// bug: deadlock

#include "cluster.cuh"

// Waits until the phase of this parity is over.
__device__ __forceinline__ void wait_for_phase(Barrier* barrier, unsigned parity) {
    unsigned over;
    do {
        asm volatile(
            "{ .reg .pred p; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;"
            " selp.u32 %0, 1, 0, p; }"
            : "=r"(over) : "r"(shared_address(barrier)), "r"(parity) : "memory");  // BUG
    } while (!over);  // BUG
}

// Copies contiguous bytes to the same place in each block of the mask.
__device__ __forceinline__ void load_for_all(void* to, const void* from, unsigned bytes, Barrier* barrier, int mask) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], %4;"
        ::"r"(shared_address(to)), "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(shared_address(barrier)),
        "h"(static_cast<unsigned short>(mask)) : "memory");
}

extern "C" __global__ __cluster_dims__(4, 1, 1) void reverse(const int* in, int* out) {
    __shared__ alignas(16) int tile[64];
    __shared__ Barrier full;
    int t = threadIdx.x;
    if (t == 0) mbarrier_init(&full, 1);
    tile[t] = -1;
    fence_proxy_async();  // so that the copy comes behind the stores and finds the barrier
    cluster_sync();
    if (t == 0 && cluster_rank() == 0) {
        mbarrier_arrive_expect_tx(&full, sizeof(tile));
        load_for_all(tile, in + 64 * (blockIdx.x / 4), sizeof(tile), &full, 0xf);
    }
    wait_for_phase(&full, 0);
    out[64 * blockIdx.x + t] = tile[63 - t];
}
