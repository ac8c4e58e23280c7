// A warp waits for a phase that ends only when another block has set a flag.
//
// arch: compute_80
// launch: grid=2 block=64
// args: i32[1]=zeros i32[32]=uninit
// bug: none
// expect 0: i32 7
// expect 1: i32 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7

// The barrier of `count` arrivals in each phase, an arrival, and the wait for
// the phase of this parity.
__device__ void init(unsigned barrier, unsigned count) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}
__device__ void arrive(unsigned barrier) {
    asm volatile("{ .reg .b64 state; mbarrier.arrive.shared.b64 state, [%0]; }" ::"r"(barrier) : "memory");
}
__device__ void wait(unsigned barrier, unsigned parity) {
    unsigned over;
    do {
        asm volatile(
            "{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
            : "=r"(over) : "r"(barrier), "r"(parity) : "memory");
    } while (!over);
}

extern "C" __global__ void relay(volatile int* flag, int* out) {
    __shared__ int passed_on;
    __shared__ unsigned long long barriers[1];
    unsigned ready = static_cast<unsigned>(__cvta_generic_to_shared(&barriers[0]));
    if (blockIdx.x == 1) {
        if (threadIdx.x == 0) *flag = 7;
        return;
    }
    if (threadIdx.x == 0) init(ready, 1);
    __syncthreads();
    if (threadIdx.x == 32) {
        while (*flag == 0) {}
        passed_on = *flag;
        arrive(ready);
    }
    if (threadIdx.x < 32) {
        wait(ready, 0);
        out[threadIdx.x] = passed_on;
    }
}
