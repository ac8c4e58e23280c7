// A lock in the first block's shared memory guards two variables there.
//
// arch: compute_90a
// launch: grid=8 block=32
// args: i32[8]=iota i32[2]=zeros
// bug: none
// expect 1: i32 406 422

#include "cluster.cuh"

extern "C" __global__ __cluster_dims__(4, 1, 1) void append(const int* in, int* out) {
    __shared__ int lock, count, sum;
    int t = threadIdx.x;
    if (t == 0) lock = count = sum = 0;
    cluster_sync();
    if (t == 0) {
        unsigned there = shared_address_on(&lock, 0);
        int before = 1;
        while (before != 0)
            asm volatile("atom.acquire.cluster.shared::cluster.cas.b32 %0, [%1], 0, 1;"
                         : "=r"(before) : "r"(there) : "memory");
        *on_rank(&count, 0) += 1;
        *on_rank(&sum, 0) += in[blockIdx.x];
        asm volatile("atom.release.cluster.shared::cluster.exch.b32 %0, [%1], 0;"
                     : "=r"(before) : "r"(there) : "memory");
    }
    __syncwarp();
    cluster_sync();
    if (cluster_rank() == 0 && t == 0) out[blockIdx.x / 4] = 100 * count + sum;
}
