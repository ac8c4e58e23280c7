// The readers wait for parity 0 in each round. The copy of the second round may end its phase
// before they wait; then they wait for the third.
//
// arch: compute_90a
// launch: grid=1 block=64
// args: i32[128]=iota i32[128]=zeros
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
    __shared__ Barrier full;
    int t = threadIdx.x;
    if (t == 0) {
        mbarrier_init(&full, 1);
        fence_mbarrier_init();
    }
    for (int round = 0; round < 2; round++) {
        if (t == 0) {
            mbarrier_arrive_expect_tx(&full, sizeof(tile));
            bulk_load(tile, in + 64 * round, sizeof(tile), &full);
        }
        __syncthreads();  // so that all find the barrier initialised and the copy begun
        wait_for_phase(&full, 0);
        out[64 * round + t] = tile[63 - t];
        __syncthreads();  // so that nothing is copied over what is still read
    }
}
