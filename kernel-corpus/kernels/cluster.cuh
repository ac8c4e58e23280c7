// Instructions of clusters by name: ranks, barrier of the cluster, shared memory of other blocks,
// remote arrivals.

#pragma once

#include "hopper.cuh"

__device__ __forceinline__ unsigned cluster_rank() {
    unsigned rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

// The barrier of the cluster. The arrival is a release and the wait an acquire, if the name says
// nothing else.
__device__ __forceinline__ void cluster_arrive() { asm volatile("barrier.cluster.arrive.aligned;" ::: "memory"); }
__device__ __forceinline__ void cluster_arrive_relaxed() {
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
__device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait.aligned;" ::: "memory"); }
__device__ __forceinline__ void cluster_sync() {
    cluster_arrive();
    cluster_wait();
}

// Address of the same variable in the shared memory of the block of this rank: a pointer, or
// `.shared::cluster`.
template <class T> __device__ __forceinline__ T* on_rank(T* at, unsigned rank) {
    unsigned long long there;
    asm("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(at), "r"(rank));
    return reinterpret_cast<T*>(there);
}
__device__ __forceinline__ unsigned shared_address_on(const void* at, unsigned rank) {
    unsigned there;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(shared_address(at)), "r"(rank));
    return there;
}

// Arrives at the barrier of the block of this rank.
__device__ __forceinline__ void mbarrier_arrive_on(Barrier* barrier, unsigned rank) {
    asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];"
                 ::"r"(shared_address_on(barrier, rank)) : "memory");
}
// Waits at a barrier of the own block where other blocks arrive or complete bytes.
__device__ __forceinline__ void mbarrier_wait_cluster(Barrier* barrier, unsigned parity) {
    unsigned over;
    do {
        asm volatile(
            "{ .reg .pred p; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;"
            " selp.u32 %0, 1, 0, p; }"
            : "=r"(over) : "r"(shared_address(barrier)), "r"(parity) : "memory");
    } while (!over);
}

// Copies contiguous bytes to the same place in each block of the mask; they complete on the same
// barrier there.
__device__ __forceinline__ void bulk_load_multicast(
    void* to, const void* from, unsigned bytes, Barrier* barrier, unsigned mask
) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], %4;"
        ::"r"(shared_address(to)), "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(shared_address(barrier)),
        "h"(static_cast<unsigned short>(mask))
        : "memory");
}
// Copies contiguous bytes of the own shared memory into that of the block of this rank, and
// completes them there.
__device__ __forceinline__ void bulk_send(void* to, const void* from, unsigned bytes, Barrier* barrier, unsigned rank) {
    asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 ::"r"(shared_address_on(to, rank)), "r"(shared_address(from)), "r"(bytes),
                 "r"(shared_address_on(barrier, rank))
                 : "memory");
}
