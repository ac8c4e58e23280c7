// Arrives at the barrier of the cluster by a relaxed arrival, with no fence behind the stores.
//
// arch: compute_90a
// launch: grid=4 block=64
// args: i32[256]=iota i32[256]=zeros
// bug: shared race

#include "cluster.cuh"

extern "C" __global__ __cluster_dims__(2, 1, 1) void combine(const int* in, int* out) {
    __shared__ int tile[64];
    int t = threadIdx.x, rank = cluster_rank();
    tile[t] = 0;
    cluster_sync();
    tile[t] = 3 * in[64 * blockIdx.x + t];  // BUG
    cluster_arrive_relaxed();
    int own = 0;  // work that needs no other block
    for (int i = 0; i < 8; i++) own += in[64 * blockIdx.x + (t + i) % 64];
    cluster_wait();
    int other = on_rank(tile, rank ^ 1)[63 - t];  // BUG
    cluster_arrive();  // the other block may end
    out[64 * blockIdx.x + t] = own + other;
    cluster_wait();
}
