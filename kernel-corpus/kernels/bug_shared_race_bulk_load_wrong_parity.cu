// The wait is for the phase before the first, which counts as over.
//
// arch: compute_90a
// launch: grid=1 block=96
// args: i32[64]=iota i32[64]=zeros
// bug: shared race

#include "hopper.cuh"

extern "C" __global__ void reverse(const int* in, int* out) {
    __shared__ alignas(16) int tile[64];
    __shared__ Barrier full, empty;
    int t = threadIdx.x;
    if (t == 0) {
        mbarrier_init(&full, 1);
        mbarrier_init(&empty, 64);
    }
    if (t < 64) tile[t] = -1;
    fence_proxy_async();  // so that the copy comes behind the stores and finds the barrier
    __syncthreads();
    if (t == 64) {
        mbarrier_wait(&empty, 0);
        mbarrier_arrive_expect_tx(&full, sizeof(tile));
        bulk_load(tile, in, sizeof(tile), &full);
    }
    if (t < 64) {
        mbarrier_arrive(&empty);
        mbarrier_wait(&full, 1);
        out[t] = tile[63 - t];  // BUG
    }
}
