// A barrier is initialised again for the second round, and was not ended.
//
// arch: compute_90a
// launch: grid=1 block=64
// args: i32[64]=uninit
// bug: bad mbarrier

#include "hopper.cuh"

extern "C" __global__ void two_rounds(int* out) {
    __shared__ Barrier barrier;
    __shared__ int words[64];
    int t = threadIdx.x;
    for (int round = 0; round < 2; round++) {
        if (t == 0) {
            asm volatile("mbarrier.init.shared.b64 [%0], 64;" ::"r"(shared_address(&barrier)) : "memory");  // BUG
        }
        __syncthreads();
        words[t] = t + round;
        mbarrier_arrive(&barrier);
        mbarrier_wait(&barrier, 0);
        out[t] = words[63 - t];
        __syncthreads();
    }
}
