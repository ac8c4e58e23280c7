// The last block of the cluster reads the rows of all, with no fences around the counter.
//
// arch: compute_90a
// launch: grid=8 block=32
// args: i32[256]=iota i32[64]=zeros
// bug: shared race

#include "cluster.cuh"

extern "C" __global__ __cluster_dims__(4, 1, 1) void sum_rows(const int* in, int* out) {
    __shared__ int row[32];
    __shared__ unsigned count;
    __shared__ bool last;
    int t = threadIdx.x;
    if (t == 0) count = 0;
    cluster_sync();
    row[t] = in[32 * blockIdx.x + t];  // BUG
    __syncthreads();
    if (t == 0) last = atomicAdd(on_rank(&count, 0), 1) == 3;
    __syncthreads();
    if (last) {
        int sum = 0;
        for (int rank = 0; rank < 4; rank++) sum += on_rank(row, rank)[31 - t];  // BUG
        out[32 * (blockIdx.x / 4) + t] = sum;
    }
    cluster_sync();
}
