// Adds to a total in the first block by load and store instead of an atomic.
//
// arch: compute_90a
// launch: grid=4 block=32
// args: i32[128]=iota i32[1]=zeros
// bug: shared race

#include "cluster.cuh"

extern "C" __global__ __cluster_dims__(4, 1, 1) void sum(const int* in, int* out) {
    __shared__ int total;
    int t = threadIdx.x;
    if (t == 0) total = 0;
    cluster_sync();
    int x = in[32 * blockIdx.x + t];
    for (int step = 16; step > 0; step /= 2) x += __shfl_down_sync(~0u, x, step);
    if (t == 0) *on_rank(&total, 0) += x;  // UPDATE // BUG
    cluster_sync();
    if (cluster_rank() == 0 && t == 0) out[blockIdx.x / 4] = total;
}
