// The barrier counts the producer among those who read.
//
// arch: compute_90a
// launch: grid=1 block=96
// args: i32[192]=iota i32[192]=zeros
// bug: deadlock

#include "hopper.cuh"

// Waits until the phase of this parity is over.
__device__ __forceinline__ void wait_for_phase(Barrier* barrier, unsigned parity) {
    unsigned over;
    do {
        asm volatile(
            "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
            : "=r"(over) : "r"(shared_address(barrier)), "r"(parity) : "memory");  // BUG
    } while (!over);  // BUG
}

extern "C" __global__ void reverse(const int* in, int* out) {
    __shared__ alignas(16) int tile[64];
    __shared__ Barrier full, empty;
    int t = threadIdx.x;
    if (t == 0) {
        mbarrier_init(&full, 1);
        mbarrier_init(&empty, 65);
        fence_mbarrier_init();
    }
    __syncthreads();
    for (int round = 0; round < 3; round++) {
        if (t == 64) {  // the producer
            wait_for_phase(&empty, round % 2 ^ 1);  // the phase before the first one counts as over
            mbarrier_arrive_expect_tx(&full, sizeof(tile));
            bulk_load(tile, in + 64 * round, sizeof(tile), &full);
        }
        if (t < 64) {
            wait_for_phase(&full, round % 2);
            out[64 * round + t] = tile[63 - t];
            mbarrier_arrive(&empty);
        }
    }
}
