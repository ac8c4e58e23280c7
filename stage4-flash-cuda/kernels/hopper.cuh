// Instructions of compute capability 9.0, by name: tensor memory accelerator and mbarriers.

#pragma once

#include "mma.cuh"

// What the host tells the tensor memory accelerator of a tensor: `cuTensorMapEncodeTiled`.
struct alignas(64) TensorMap {
    unsigned long long opaque[16];
};

// A barrier in shared memory. Each of its phases waits for arrivals, and for bytes of copies.
using Mbarrier = unsigned long long;

__device__ __forceinline__ void mbarrier_init(Mbarrier* barrier_smem, unsigned arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier_smem)), "r"(arrivals) : "memory");
}

// Makes initialised barriers visible to copies.
__device__ __forceinline__ void fence_mbarrier_init() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ __forceinline__ void mbarrier_arrive(Mbarrier* barrier_smem) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier_smem)) : "memory");
}

// Arrives, and has the phase wait for `bytes` more.
__device__ __forceinline__ void mbarrier_arrive_expect_tx(Mbarrier* barrier_smem, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier_smem)), "r"(bytes)
                 : "memory");
}

// Waits until the phase of this parity is over. Before the first phase is, the one of parity 1
// counts as over.
__device__ __forceinline__ void mbarrier_wait(Mbarrier* barrier_smem, unsigned parity) {
    asm volatile(
        "{\n"
        ".reg .pred over;\n"
        "again:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 over, [%0], %1;\n"
        "@!over bra again;\n"
        "}" ::"r"(shared_address(barrier_smem)),
        "r"(parity)
        : "memory");
}

// Starts the copy of a box of a tensor of three dimensions: the one whose first element is (column,
// row, matrix). What lies outside the tensor becomes zeros. The barrier gets the bytes of the box.
__device__ __forceinline__ void copy_box(
    void* target_smem, const TensorMap& tensor, int column, int row, int matrix, Mbarrier* barrier_smem
) {
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];" ::"r"(
                     shared_address(target_smem)),
                 "l"(&tensor), "r"(column), "r"(row), "r"(matrix), "r"(shared_address(barrier_smem))
                 : "memory");
}
