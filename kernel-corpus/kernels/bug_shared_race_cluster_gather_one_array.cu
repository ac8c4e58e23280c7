// Gathers sums of several rounds in one array, which another block may overwrite before it has
// been read.
//
// arch: compute_90a
// launch: grid=4 block=128
// args: i32[1536]=iota i32[48]=zeros
// bug: shared race

#include "cluster.cuh"

extern "C" __global__ __cluster_dims__(4, 1, 1) void sums(const int* in, int* out) {
    __shared__ int parts[4], gathered[4];
    int t = threadIdx.x, rank = cluster_rank();
    for (int round = 0; round < 3; round++) {
        int x = in[128 * (4 * round + rank) + t];
        for (int step = 16; step > 0; step /= 2) x += __shfl_down_sync(~0u, x, step);
        if (t % 32 == 0) parts[t / 32] = x;
        __syncthreads();
        if (round == 0) cluster_sync();
        if (t < 4) {  // one lane for each block
            int sum = parts[0] + parts[1] + parts[2] + parts[3];
            on_rank(gathered, t)[rank] = sum;  // BUG
        }
        cluster_sync();
        if (t < 4) out[16 * round + 4 * rank + t] = gathered[t];  // BUG
    }
}
