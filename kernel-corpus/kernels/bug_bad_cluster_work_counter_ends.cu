// The block with the counter of rows may end while warps of others still take from it.
//
// arch: compute_90a
// launch: grid=8 block=64
// args: i32[768]=iota i32[768]=zeros
// bug: bad cluster

#include "cluster.cuh"

extern "C" __global__ __cluster_dims__(4, 1, 1) void squares(const int* in, int* out) {
    __shared__ int next;
    int t = threadIdx.x;
    if (t == 0) next = 0;
    cluster_sync();
    int* counter = on_rank(&next, 0);
    for (;;) {
        int row = 0;
        if (t % 32 == 0) row = atomicAdd(counter, 1);  // BUG
        row = __shfl_sync(~0u, row, 0);
        if (row >= 12) break;
        int i = 384 * (blockIdx.x / 4) + 32 * row + t % 32;
        out[i] = in[i] * in[i];
    }
}
