// Four warps fill a tile, and the phase ends when three have.
//
// arch: compute_90a
// launch: grid=1 block=160
// args: i32[128]=iota i32[32]=zeros
// bug: shared race

#include "hopper.cuh"

extern "C" __global__ void sums(const int* in, int* out) {
    __shared__ int tile[128];
    __shared__ Barrier full;
    int t = threadIdx.x;
    if (t == 0) mbarrier_init(&full, 96);
    if (t < 128) tile[t] = -1;
    __syncthreads();
    if (t < 128) {
        tile[t] = in[t];  // BUG
        mbarrier_arrive(&full);
    } else {
        mbarrier_wait(&full, 0);
        int column = t % 32, sum = 0;
        for (int i = 0; i < 4; i++) sum += tile[32 * i + column];  // BUG
        out[column] = sum;
    }
}
