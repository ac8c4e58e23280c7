// The producer arrives before it has stored: the phase ends while the tile is being filled.
//
// arch: compute_80
// launch: grid=1 block=64
// args: i32[32]=iota i32[32]=zeros
// bug: shared race

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

extern "C" __global__ void through_tile(const int* in, int* out) {
    __shared__ int tile[32];
    __shared__ unsigned long long barriers[1];
    unsigned full = static_cast<unsigned>(__cvta_generic_to_shared(&barriers[0]));
    int lane = threadIdx.x % 32;
    if (threadIdx.x == 0) init(full, 32);
    if (threadIdx.x < 32) tile[lane] = -1;
    __syncthreads();
    if (threadIdx.x < 32) {
        arrive(full);
        tile[lane] = in[lane];  // BUG
    } else {
        wait(full, 0);
        out[lane] = tile[31 - lane];  // BUG
    }
}
