// Softmax of rows spread over a cluster, whose blocks may end while others still read their sums.
//
// arch: compute_90a
// launch: grid=8 block=32
// args: f32[256]=iota f32[256]=zeros
// bug: bad cluster

#include "cluster.cuh"

extern "C" __global__ __cluster_dims__(4, 1, 1) void softmax(const float* in, float* out) {
    __shared__ float largest, total;
    int t = threadIdx.x;
    float x = in[32 * blockIdx.x + t] / 8, most = x;
    for (int step = 16; step > 0; step /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, step));
    if (t == 0) largest = most;
    cluster_sync();
    for (int rank = 0; rank < 4; rank++) most = fmaxf(most, *on_rank(&largest, rank));
    float e = exp2f(x - most), sum = e;
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
    if (t == 0) total = sum;
    cluster_sync();
    sum = 0;
    for (int rank = 0; rank < 4; rank++) sum += *on_rank(&total, rank);  // BUG
    out[32 * blockIdx.x + t] = e / sum;
}
