// All lanes of a warp initialise one barrier, for the same count, by one instruction.
//
// arch: compute_90a
// launch: grid=1 block=64
// args: i32[64]=iota i32[64]=uninit
// bug: none
// expect 1: i32 63 62 61 60 59 58 57 56 55 54 53 52 51 50 49 48 47 46 45 44 43 42 41 40 39 38 37 36 35 34 33 32 31
// expect 1: i32 30 29 28 27 26 25 24 23 22 21 20 19 18 17 16 15 14 13 12 11 10 9 8 7 6 5 4 3 2 1 0

#include "hopper.cuh"

extern "C" __global__ void reverses(const int* in, int* out) {
    __shared__ Barrier barrier;
    __shared__ int words[64];
    int t = threadIdx.x;
    if (t < 32) mbarrier_init(&barrier, 64);
    __syncthreads();
    words[t] = in[t];
    mbarrier_arrive(&barrier);
    mbarrier_wait(&barrier, 0);
    out[t] = words[63 - t];
}
