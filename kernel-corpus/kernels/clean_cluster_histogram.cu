// Histogram with 16 bins, 8 in each block of the cluster; every thread counts in the block that
// owns the bin.
//
// arch: compute_90a
// launch: grid=4 block=64
// args: i32[256]=iota i32[32]=zeros
// bug: none
// expect 1: i32 10 6 11 5 11 5 12 5 11 6 11 6 10 5 9 5 11 6 10 6 12 5 10 6 10 4 11 4 11 6 11 5

#include "cluster.cuh"

extern "C" __global__ __cluster_dims__(2, 1, 1) void histogram(const int* in, int* out) {
    __shared__ int bins[8];
    int t = threadIdx.x;
    if (t < 8) bins[t] = 0;
    cluster_sync();
    int x = in[64 * blockIdx.x + t];
    int bin = (x * x + x / 3) % 16;
    atomicAdd(on_rank(bins, bin / 8) + bin % 8, 1);
    cluster_sync();
    if (t < 8) out[8 * blockIdx.x + t] = bins[t];
}
