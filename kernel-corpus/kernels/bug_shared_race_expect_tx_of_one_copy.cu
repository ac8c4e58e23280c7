// Two copies complete their bytes on one barrier, which expects those of one.
//
// arch: compute_90a
// launch: grid=1 block=64
// args: i32[64]=iota i32[64]=zeros
// bug: shared race

#include "hopper.cuh"

extern "C" __global__ void reverse(const int* in, int* out) {
    __shared__ alignas(16) int tile[64];
    __shared__ Barrier full;
    int t = threadIdx.x;
    tile[t] = -1;
    if (t == 0) mbarrier_init(&full, 1);
    fence_proxy_async();  // so that the copies come behind the stores and find the barrier
    __syncthreads();
    if (t == 0) {
        mbarrier_arrive_expect_tx(&full, 128);
        bulk_load(tile, in, 128, &full);
        bulk_load(tile + 32, in + 32, 128, &full);
    }
    mbarrier_wait(&full, 0);
    out[t] = tile[63 - t];  // BUG
}
