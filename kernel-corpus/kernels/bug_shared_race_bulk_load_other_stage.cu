// Two copies fill two tiles, and both waits are for the first.
//
// arch: compute_90a
// launch: grid=1 block=64
// args: i32[128]=iota i32[128]=zeros
// bug: shared race

#include "hopper.cuh"

extern "C" __global__ void reverse(const int* in, int* out) {
    __shared__ alignas(16) int tile[2][64];
    __shared__ Barrier full[2];
    int t = threadIdx.x;
    for (int stage = 0; stage < 2; stage++) {
        tile[stage][t] = -1;
        if (t == 0) mbarrier_init(&full[stage], 1);
    }
    fence_proxy_async();  // so that the copies come behind the stores and find the barriers
    __syncthreads();
    for (int stage = 0; stage < 2 && t == 0; stage++) {
        mbarrier_arrive_expect_tx(&full[stage], 256);
        bulk_load(tile[stage], in + 64 * stage, 256, &full[stage]);
    }
    for (int stage = 0; stage < 2; stage++) {
        mbarrier_wait(&full[0], 0);
        out[64 * stage + t] = tile[stage][63 - t];  // BUG
    }
}
