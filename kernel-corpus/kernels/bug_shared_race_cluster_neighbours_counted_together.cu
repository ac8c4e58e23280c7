// One barrier counts the arrivals of both neighbours, so the second arrival of one stands for that
// of the other.
//
// arch: compute_90a
// launch: grid=8 block=32
// args: i32[256]=iota i32[256]=zeros
// bug: shared race

#include "cluster.cuh"

extern "C" __global__ __cluster_dims__(8, 1, 1) void smooth(const int* in, int* out) {
    __shared__ int cells[2][32];
    __shared__ Barrier done;
    int t = threadIdx.x, rank = cluster_rank(), last = 7;
    cells[0][t] = in[32 * blockIdx.x + t];
    if (t == 0) {
        mbarrier_init(&done, 1 + (rank > 0) + (rank < last));
        fence_mbarrier_init();
    }
    cluster_sync();
    for (int round = 0; round < 5; round++) {
        int* now = cells[round % 2];
        int left = 0, right = 0;
        if (t > 0) left = now[t - 1];
        else if (rank > 0) left = on_rank(now, rank - 1)[31];  // BUG
        if (t < 31) right = now[t + 1];
        else if (rank < last) right = on_rank(now, rank + 1)[0];  // BUG
        cells[(round + 1) % 2][t] = left + now[t] + right;  // BUG
        __syncthreads();
        if (t == 0) {
            mbarrier_arrive(&done);
            if (rank > 0) mbarrier_arrive_on(&done, rank - 1);
            if (rank < last) mbarrier_arrive_on(&done, rank + 1);
        }
        mbarrier_wait_cluster(&done, round % 2);
    }
    out[32 * blockIdx.x + t] = cells[1][t];
    cluster_sync();
}
