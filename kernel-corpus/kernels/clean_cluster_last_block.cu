// The last block of the cluster, by a counter in the first one's shared memory, adds the rows of
// all.
//
// arch: compute_90a
// launch: grid=8 block=32
// args: i32[256]=iota i32[64]=zeros
// bug: none
// expect 1: i32 316 312 308 304 300 296 292 288 284 280 276 272 268 264 260 256 252 248 244 240 236 232 228 224 220
// expect 1: i32 216 212 208 204 200 196 192 828 824 820 816 812 808 804 800 796 792 788 784 780 776 772 768 764 760
// expect 1: i32 756 752 748 744 740 736 732 728 724 720 716 712 708 704

#include "cluster.cuh"

extern "C" __global__ __cluster_dims__(4, 1, 1) void sum_rows(const int* in, int* out) {
    __shared__ int row[32];
    __shared__ unsigned count;
    __shared__ bool last;
    int t = threadIdx.x;
    if (t == 0) count = 0;
    cluster_sync();
    row[t] = in[32 * blockIdx.x + t];
    __threadfence();
    __syncthreads();
    if (t == 0) last = atomicAdd(on_rank(&count, 0), 1) == 3;
    __syncthreads();
    if (last) {
        __threadfence();
        int sum = 0;
        for (int rank = 0; rank < 4; rank++) sum += on_rank(row, rank)[31 - t];
        out[32 * (blockIdx.x / 4) + t] = sum;
    }
    cluster_sync();
}
