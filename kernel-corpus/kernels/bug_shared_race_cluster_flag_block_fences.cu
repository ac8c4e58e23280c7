// Hands data over by a relaxed flag with fences that order threads of one block alone.
//
// arch: compute_90a
// launch: grid=4 block=32
// args: i32[64]=iota i32[64]=zeros
// bug: shared race

#include "cluster.cuh"

// Sets the flag in the block of this rank.
__device__ __forceinline__ void set_flag(unsigned* flag, unsigned rank) {
    asm volatile("fence.acq_rel.cta;" ::: "memory");
    asm volatile("st.relaxed.cluster.shared::cluster.u32 [%0], 1;" ::"r"(shared_address_on(flag, rank)) : "memory");
}
// Waits until the flag of the own block is set.
__device__ __forceinline__ void await_flag(unsigned* flag) {
    unsigned set = 0;
    while (set == 0)
        asm volatile("ld.relaxed.cluster.shared::cta.u32 %0, [%1];" : "=r"(set) : "r"(shared_address(flag)) : "memory");
    asm volatile("fence.acq_rel.cta;" ::: "memory");
}

extern "C" __global__ __cluster_dims__(2, 1, 1) void hand_over(const int* in, int* out) {
    __shared__ int data[32];
    __shared__ unsigned ready;
    int t = threadIdx.x;
    if (t == 0) ready = 0;
    cluster_sync();
    if (cluster_rank() == 0) {
        data[t] = 3 * in[16 * blockIdx.x + t];  // BUG
        __syncwarp();
        if (t == 0) set_flag(&ready, 1);
    } else {
        if (t == 0) await_flag(&ready);
        __syncwarp();
        out[16 * (blockIdx.x - 1) + t] = on_rank(data, 0)[31 - t];  // BUG
    }
    cluster_sync();
}
