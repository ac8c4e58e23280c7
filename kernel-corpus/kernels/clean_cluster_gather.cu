// The first warp of each block stores the sum of its block into all blocks of the cluster, in
// three rounds.
//
// arch: compute_90a
// launch: grid=4 block=128
// args: i32[1536]=iota i32[48]=zeros
// bug: none
// expect 1: i32 8128 24512 40896 57280 8128 24512 40896 57280 8128 24512 40896 57280 8128 24512 40896 57280 73664
// expect 1: i32 90048 106432 122816 73664 90048 106432 122816 73664 90048 106432 122816 73664 90048 106432 122816
// expect 1: i32 139200 155584 171968 188352 139200 155584 171968 188352 139200 155584 171968 188352 139200 155584
// expect 1: i32 171968 188352

#include "cluster.cuh"

extern "C" __global__ __cluster_dims__(4, 1, 1) void sums(const int* in, int* out) {
    __shared__ int parts[4], gathered[2][4];
    int t = threadIdx.x, rank = cluster_rank();
    for (int round = 0; round < 3; round++) {
        int x = in[128 * (4 * round + rank) + t];
        for (int step = 16; step > 0; step /= 2) x += __shfl_down_sync(~0u, x, step);
        if (t % 32 == 0) parts[t / 32] = x;
        __syncthreads();
        if (round == 0) cluster_sync();
        if (t < 4) {  // one lane for each block
            int sum = parts[0] + parts[1] + parts[2] + parts[3];
            on_rank(gathered[round % 2], t)[rank] = sum;
        }
        cluster_sync();
        if (t < 4) out[16 * round + 4 * rank + t] = gathered[round % 2][t];
    }
}
