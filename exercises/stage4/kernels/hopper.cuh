// Instructions of compute capability 9.0, by name: copies by the tensor memory accelerator, and
// mbarriers, by which copies and threads wait for each other.

#pragma once

#include "mma.cuh"

// Tensor map: address, sizes, strides, box and swizzle of a tensor, as the accelerator reads them.
// The host makes it by `cuTensorMapEncodeTiled`.
struct alignas(64) TensorMap {
    unsigned long long opaque[16];
};

// Barrier in shared memory. A phase ends when no arrival and no byte of a copy is missing, and the
// next one begins with as many arrivals.
using Mbarrier = unsigned long long;

// Sets the number of arrivals of a phase. One thread calls it.
__device__ __forceinline__ void mbarrier_init(Mbarrier* barrier_smem, unsigned arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier_smem)), "r"(arrivals) : "memory");
}

// Releases barriers that this thread has initialised to the other blocks of a cluster, which then
// meet at a relaxed barrier. The threads of its own block need a __syncthreads(), and no more.
__device__ __forceinline__ void fence_mbarrier_init() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// Arrives once. What this thread has read and written before, it has done for those who wait.
__device__ __forceinline__ void mbarrier_arrive(Mbarrier* barrier_smem) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier_smem)) : "memory");
}

// Arrives once, and lets the phase last until `bytes` more have come.
__device__ __forceinline__ void mbarrier_arrive_expect_tx(Mbarrier* barrier_smem, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier_smem)), "r"(bytes)
                 : "memory");
}

// Waits until the phase of this parity is over: the first one has parity 0, the second 1, the third
// 0 again. While the first one runs, a wait for parity 1 returns at once.
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

// Starts the copy of a box of a tensor of three dimensions, whose first element is (column, row,
// matrix). What lies outside of the tensor becomes zeros, which count as bytes, too. One thread
// calls it, after it has announced the bytes by mbarrier_arrive_expect_tx.
__device__ __forceinline__ void copy_box(
    void* target_smem, const TensorMap& tensor, int column, int row, int matrix, Mbarrier* barrier_smem
) {
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];" ::"r"(
                     shared_address(target_smem)),
                 "l"(&tensor), "r"(column), "r"(row), "r"(matrix), "r"(shared_address(barrier_smem))
                 : "memory");
}

// The same of a tensor of four dimensions, whose first element is (column, row, head, batch).
__device__ __forceinline__ void copy_box(
    void* target_smem, const TensorMap& tensor, int column, int row, int head, int batch, Mbarrier* barrier_smem
) {
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5}], [%6];" ::"r"(
                     shared_address(target_smem)),
                 "l"(&tensor), "r"(column), "r"(row), "r"(head), "r"(batch), "r"(shared_address(barrier_smem))
                 : "memory");
}

// Orders what this thread has written to shared memory by ordinary stores before copies and
// products that read it behind a later barrier.
__device__ __forceinline__ void fence_proxy_async() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
