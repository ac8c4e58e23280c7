// Data in shared memory of one block, and a flag in that of the other, stored by a release and
// read by an acquire.
//
// arch: compute_90a
// launch: grid=4 block=32
// args: i32[64]=iota i32[64]=zeros
// bug: none
// expect 1: i32 93 90 87 84 81 78 75 72 69 66 63 60 57 54 51 48 45 42 39 36 33 30 27 24 21 18 15 12 9 6 3 0 189 186
// expect 1: i32 183 180 177 174 171 168 165 162 159 156 153 150 147 144 141 138 135 132 129 126 123 120 117 114 111
// expect 1: i32 108 105 102 99 96

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

extern "C" __global__ __cluster_dims__(2, 1, 1) void hand_over(const int* in, int* out) {
    __shared__ int data[32];
    __shared__ unsigned ready;
    int t = threadIdx.x;
    if (t == 0) ready = 0;
    cluster_sync();
    if (cluster_rank() == 0) {
        data[t] = 3 * in[16 * blockIdx.x + t];
        __syncwarp();
        if (t == 0) set_flag(&ready, 1);
    } else {
        if (t == 0) await_flag(&ready);
        __syncwarp();
        out[16 * (blockIdx.x - 1) + t] = on_rank(data, 0)[31 - t];
    }
    cluster_sync();
}
