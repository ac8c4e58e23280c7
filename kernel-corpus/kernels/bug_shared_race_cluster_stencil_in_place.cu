// Stencil in place: a barrier of the block does not make the neighbours' reads of the edges come
// first.
//
// arch: compute_90a
// launch: grid=16 block=32
// args: i32[512]=iota i32[512]=zeros
// bug: shared race

#include "cluster.cuh"

extern "C" __global__ __cluster_dims__(8, 1, 1) void smooth(const int* in, int* out) {
    __shared__ int cells[32];
    int t = threadIdx.x, rank = cluster_rank();
    cells[t] = in[32 * blockIdx.x + t];
    cluster_sync();
    for (int round = 0; round < 3; round++) {
        int left = 0, right = 0;
        if (t > 0) left = cells[t - 1];
        else if (rank > 0) left = on_rank(cells, rank - 1)[31];  // BUG
        if (t < 31) right = cells[t + 1];
        else if (rank < 7) right = on_rank(cells, rank + 1)[0];  // BUG
        __syncthreads();
        cells[t] += left + right;  // BUG
        cluster_sync();
    }
    out[32 * blockIdx.x + t] = cells[t];
}
