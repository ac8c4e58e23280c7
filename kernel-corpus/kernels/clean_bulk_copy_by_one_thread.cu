// An elected thread copies a tile to shared memory and from there: no ordinary access, so no proxy
// fence.
//
// arch: compute_90a
// launch: grid=1 block=64
// args: i32[64]=iota i32[64]=zeros
// bug: none
// expect 1: i32 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36
// expect 1: i32 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63

#include "hopper.cuh"

// True for one lane of the warp.
__device__ __forceinline__ bool elected() {
    unsigned is;
    asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p; }" : "=r"(is)::"memory");
    return is;
}

extern "C" __global__ void copy(const int* in, int* out) {
    __shared__ alignas(16) int tile[64];
    __shared__ Barrier full;
    if (threadIdx.x < 32 && elected()) {
        mbarrier_init(&full, 1);
        fence_mbarrier_init();
        mbarrier_arrive_expect_tx(&full, sizeof(tile));
        bulk_load(tile, in, sizeof(tile), &full);
        mbarrier_wait(&full, 0);
        bulk_store(out, tile, sizeof(tile));
        bulk_commit_group();
        bulk_wait_group_read<0>();
    }
}
