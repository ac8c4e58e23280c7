// A warpgroup is to give back registers, and names more than it has.
//
// arch: compute_90a
// launch: grid=1 block=384
// args: i32[256]=iota i32[256]=zeros
// bug: setmaxnreg

#include "hopper.cuh"

extern "C" __global__ void __launch_bounds__(384, 1) reverse(const int* in, int* out) {
    __shared__ alignas(16) int tile[256];
    __shared__ Barrier full;
    int t = threadIdx.x;
    if (t == 0) {
        mbarrier_init(&full, 1);
        fence_mbarrier_init();
    }
    __syncthreads();
    if (t >= 256) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 176;" ::: "memory");  // BUG
        if (t == 256) {
            mbarrier_arrive_expect_tx(&full, sizeof(tile));
            bulk_load(tile, in, sizeof(tile), &full);
        }
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 240;" ::: "memory");
        mbarrier_wait(&full, 0);
        out[t] = tile[255 - t];
    }
    __syncthreads();  // so that no warp ends, with its registers, before the others have theirs
}
