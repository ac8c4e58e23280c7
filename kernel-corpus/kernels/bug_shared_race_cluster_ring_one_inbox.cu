// Ring with one inbox: the neighbour may send the next part before the last one has been added.
//
// arch: compute_90a
// launch: grid=8 block=32
// args: i32[1024]=iota i32[256]=zeros
// bug: shared race

#include "cluster.cuh"

extern "C" __global__ __cluster_dims__(4, 1, 1) void reduce_scatter(const int* in, int* out) {
    __shared__ int part[4][32], inbox[32];
    int t = threadIdx.x, rank = cluster_rank();
    for (int i = 0; i < 4; i++) part[i][t] = in[128 * blockIdx.x + 32 * i + t];
    cluster_sync();
    for (int step = 0; step < 3; step++) {
        int* to = on_rank(inbox, (rank + 1) % 4);
        to[t] = part[(rank + 4 - step) % 4][t];  // BUG
        cluster_sync();
        part[(rank + 3 - step) % 4][t] += inbox[t];  // BUG
    }
    out[32 * blockIdx.x + t] = part[(rank + 1) % 4][t];
}
