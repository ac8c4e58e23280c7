// Softmax of rows spread over a cluster, with one scratch variable for maximum and sum and no
// barrier between.
//
// arch: compute_90a
// launch: grid=8 block=32
// args: f32[256]=iota f32[256]=zeros
// bug: shared race

#include "cluster.cuh"

extern "C" __global__ __cluster_dims__(4, 1, 1) void softmax(const float* in, float* out) {
    __shared__ float scratch;
    int t = threadIdx.x;
    float x = in[32 * blockIdx.x + t] / 8, most = x;
    for (int step = 16; step > 0; step /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, step));
    if (t == 0) scratch = most;
    cluster_sync();
    for (int rank = 0; rank < 4; rank++) most = fmaxf(most, *on_rank(&scratch, rank));  // BUG
    float e = exp2f(x - most), sum = e;
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
    if (t == 0) scratch = sum;  // BUG
    cluster_sync();
    sum = 0;
    for (int rank = 0; rank < 4; rank++) sum += *on_rank(&scratch, rank);
    out[32 * blockIdx.x + t] = e / sum;
    cluster_sync();
}
