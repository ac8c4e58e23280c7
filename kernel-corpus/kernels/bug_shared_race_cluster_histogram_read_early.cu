// Stores its bins behind a barrier of the block, while the other block may still count in them.
//
// arch: compute_90a
// launch: grid=4 block=64
// args: i32[256]=iota i32[32]=zeros
// bug: shared race

#include "cluster.cuh"

extern "C" __global__ __cluster_dims__(2, 1, 1) void histogram(const int* in, int* out) {
    __shared__ int bins[8];
    int t = threadIdx.x;
    if (t < 8) bins[t] = 0;
    cluster_sync();
    int x = in[64 * blockIdx.x + t];
    int bin = (x * x + x / 3) % 16;
    atomicAdd(on_rank(bins, bin / 8) + bin % 8, 1);  // BUG
    __syncthreads();
    if (t < 8) out[8 * blockIdx.x + t] = bins[t];  // BUG
    cluster_sync();
}
