// The last block reads the row of a rank that the cluster does not have.
//
// arch: compute_90a
// launch: grid=4 block=32
// args: i32[128]=iota i32[96]=zeros i32=3
// bug: bad cluster

#include "cluster.cuh"

extern "C" __global__ __cluster_dims__(4, 1, 1) void next_row(const int* in, int* out, int rows) {
    __shared__ int row[32];
    int t = threadIdx.x, rank = cluster_rank();
    row[t] = in[32 * blockIdx.x + t];
    cluster_sync();
    if (blockIdx.x <= rows) out[32 * (blockIdx.x % rows) + t] = on_rank(row, rank + 1)[31 - t];  // BUG
    cluster_sync();
}
