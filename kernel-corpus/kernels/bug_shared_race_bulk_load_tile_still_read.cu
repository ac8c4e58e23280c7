// The next tile is copied while another warp may still read this one.
//
// arch: compute_90a
// launch: grid=1 block=64
// args: i32[192]=iota i32[192]=zeros
// bug: shared race

#include "hopper.cuh"

extern "C" __global__ void reverse(const int* in, int* out) {
    __shared__ alignas(16) int tile[64];
    __shared__ Barrier full;
    int t = threadIdx.x;
    if (t == 0) {
        mbarrier_init(&full, 1);
        fence_mbarrier_init();
    }
    for (int round = 0; round < 3; round++) {
        if (t == 0) {
            mbarrier_arrive_expect_tx(&full, sizeof(tile));
            bulk_load(tile, in + 64 * round, sizeof(tile), &full);
            mbarrier_wait(&full, round % 2);
        }
        __syncthreads();  // the tile is there
        out[64 * round + t] = tile[63 - t];  // BUG
    }
}
