// The first block's data reach the last one by flags from block to block.
//
// arch: compute_90a
// launch: grid=8 block=64
// args: i32[64]=iota i32[128]=zeros
// bug: none
// expect 1: i32 189 186 183 180 177 174 171 168 165 162 159 156 153 150 147 144 141 138 135 132 129 126 123 120 117
// expect 1: i32 114 111 108 105 102 99 96 93 90 87 84 81 78 75 72 69 66 63 60 57 54 51 48 45 42 39 36 33 30 27 24 21
// expect 1: i32 18 15 12 9 6 3 0 189 186 183 180 177 174 171 168 165 162 159 156 153 150 147 144 141 138 135 132 129
// expect 1: i32 126 123 120 117 114 111 108 105 102 99 96 93 90 87 84 81 78 75 72 69 66 63 60 57 54 51 48 45 42 39
// expect 1: i32 36 33 30 27 24 21 18 15 12 9 6 3 0

#include "cluster.cuh"

// Sets the flag in the block of this rank.
__device__ __forceinline__ void set_flag(unsigned* flag, unsigned rank) {
    asm volatile("st.release.cluster.shared::cluster.u32 [%0], 1;" ::"r"(shared_address_on(flag, rank)) : "memory");
}
// Waits until the flag of the own block is set.
__device__ __forceinline__ void await_flag(unsigned* flag) {
    unsigned set = 0;
    while (set == 0)
        asm volatile("ld.acquire.cluster.shared::cta.u32 %0, [%1];" : "=r"(set) : "r"(shared_address(flag)) : "memory");
}

extern "C" __global__ __cluster_dims__(4, 1, 1) void hand_over(const int* in, int* out) {
    __shared__ int data[64];
    __shared__ unsigned ready;
    int t = threadIdx.x, rank = cluster_rank();
    if (t == 0) ready = 0;
    cluster_sync();
    if (rank == 0) data[t] = 3 * in[t];
    else if (t == 0) await_flag(&ready);
    __syncthreads();
    if (t == 0 && rank < 3) set_flag(&ready, rank + 1);
    if (rank == 3) out[64 * (blockIdx.x / 4) + t] = on_rank(data, 0)[63 - t];
    cluster_sync();
}
