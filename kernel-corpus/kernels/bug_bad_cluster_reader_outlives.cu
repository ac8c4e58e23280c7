// The first block returns although the other one still reads its tile.
//
// arch: compute_90a
// launch: grid=2 block=32
// args: i32[64]=iota i32[64]=zeros
// bug: bad cluster

#include "cluster.cuh"

extern "C" __global__ __cluster_dims__(2, 1, 1) void read_of_the_first(const int* in, int* out) {
    __shared__ int tile[32];
    int t = threadIdx.x;
    tile[t] = in[32 * blockIdx.x + t];
    cluster_sync();
    if (cluster_rank() == 0) return;
    out[t] = on_rank(tile, 0)[31 - t];  // BUG
}
