// The first block of a cluster reads the sum before the others have added their parts.
//
// arch: compute_90a
// launch: grid=8 block=64
// args: i32[512]=iota i32[128]=zeros
// bug: shared race

#include "cluster.cuh"

extern "C" __global__ __cluster_dims__(4, 1, 1) void sum(const int* in, int* out) {
    __shared__ alignas(16) int part[64], total[64];
    __shared__ Barrier full;
    int t = threadIdx.x, rank = cluster_rank();
    part[t] = in[64 * blockIdx.x + t];
    total[t] = 100;
    asm volatile("fence.proxy.async;" ::: "memory");
    if (t == 0) {
        mbarrier_init(&full, 1);
        fence_mbarrier_init();
        if (rank == 0) mbarrier_arrive_expect_tx(&full, 4 * sizeof(part));
    }
    cluster_sync();
    if (t == 0) {
        asm volatile(
            "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.u32 [%0], [%1], %2, [%3];"
            ::"r"(shared_address_on(total, 0)), "r"(shared_address(part)), "n"(sizeof(part)),
            "r"(shared_address_on(&full, 0))
            : "memory");  // BUG
    }
    if (rank == 0) {
        out[16 * blockIdx.x + t] = total[63 - t];  // BUG
        mbarrier_wait_cluster(&full, 0);
    }
    cluster_sync();  // no block ends before its part has been read
}
