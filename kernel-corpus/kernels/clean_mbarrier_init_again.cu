// A barrier is ended behind each round, and initialised again.
//
// arch: compute_90a
// launch: grid=1 block=64
// args: i32[64]=uninit
// bug: none
// expect 0: i32 64 63 62 61 60 59 58 57 56 55 54 53 52 51 50 49 48 47 46 45 44 43 42 41 40 39 38 37 36 35 34 33 32
// expect 0: i32 31 30 29 28 27 26 25 24 23 22 21 20 19 18 17 16 15 14 13 12 11 10 9 8 7 6 5 4 3 2 1

#include "hopper.cuh"

extern "C" __global__ void two_rounds(int* out) {
    __shared__ Barrier barrier;
    __shared__ int words[64];
    int t = threadIdx.x;
    for (int round = 0; round < 2; round++) {
        if (t == 0) {
            asm volatile("mbarrier.init.shared.b64 [%0], 64;" ::"r"(shared_address(&barrier)) : "memory");
        }
        __syncthreads();
        words[t] = t + round;
        mbarrier_arrive(&barrier);
        mbarrier_wait(&barrier, 0);
        out[t] = words[63 - t];
        __syncthreads();
        if (t == 0) {
            asm volatile("mbarrier.inval.shared.b64 [%0];" ::"r"(shared_address(&barrier)) : "memory");
        }
    }
}
