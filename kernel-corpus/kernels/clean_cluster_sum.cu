// Sum over a cluster: each warp adds its part to a total in the first block.
//
// arch: compute_90a
// launch: grid=8 block=96
// args: i32[768]=iota i32[2]=zeros
// bug: none
// expect 1: i32 73536 220992

#include "cluster.cuh"

// Adds to the variable in the block of this rank.
__device__ __forceinline__ void add_on(int* sum, unsigned rank, int x) {
    asm volatile("red.relaxed.cluster.shared::cluster.add.s32 [%0], %1;" ::"r"(shared_address_on(sum, rank)),
                 "r"(x) : "memory");
}

extern "C" __global__ __cluster_dims__(4, 1, 1) void sum(const int* in, int* out) {
    __shared__ int total;
    int t = threadIdx.x;
    if (t == 0) total = 0;
    cluster_sync();
    int x = in[96 * blockIdx.x + t];
    for (int step = 16; step > 0; step /= 2) x += __shfl_down_sync(~0u, x, step);
    if (t % 32 == 0) add_on(&total, 0, x);
    cluster_sync();
    if (cluster_rank() == 0 && t == 0) out[blockIdx.x / 4] = total;
}
