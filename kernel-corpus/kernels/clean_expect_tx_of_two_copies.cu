// Two copies complete their bytes on one barrier, which expects those of both.
//
// arch: compute_90a
// launch: grid=1 block=64
// args: i32[64]=iota i32[64]=zeros
// bug: none
// expect 1: i32 63 62 61 60 59 58 57 56 55 54 53 52 51 50 49 48 47 46 45 44 43 42 41 40 39 38 37 36 35 34 33 32 31
// expect 1: i32 30 29 28 27 26 25 24 23 22 21 20 19 18 17 16 15 14 13 12 11 10 9 8 7 6 5 4 3 2 1 0

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
        mbarrier_arrive_expect_tx(&full, 256);
        bulk_load(tile, in, 128, &full);
        bulk_load(tile + 32, in + 32, 128, &full);
    }
    mbarrier_wait(&full, 0);
    out[t] = tile[63 - t];
}
