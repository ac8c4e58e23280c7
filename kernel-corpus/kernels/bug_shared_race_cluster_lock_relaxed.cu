// A lock in the first block's shared memory is taken and given back by relaxed atomics, with no
// fences.
//
// arch: compute_90a
// launch: grid=8 block=32
// args: i32[8]=iota i32[2]=zeros
// bug: shared race

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
            asm volatile("atom.relaxed.cluster.shared::cluster.cas.b32 %0, [%1], 0, 1;"
                         : "=r"(before) : "r"(there) : "memory");
        *on_rank(&count, 0) += 1;  // UPDATE // BUG
        *on_rank(&sum, 0) += in[blockIdx.x];  // UPDATE // BUG
        asm volatile("atom.relaxed.cluster.shared::cluster.exch.b32 %0, [%1], 0;"
                     : "=r"(before) : "r"(there) : "memory");
    }
    __syncwarp();
    cluster_sync();
    if (cluster_rank() == 0 && t == 0) out[blockIdx.x / 4] = 100 * count + sum;
}
