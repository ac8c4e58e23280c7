// The reader waits for the first phase twice: its second read does not wait for the second tile.
//
// arch: compute_80
// launch: grid=1 block=64
// args: i32[64]=iota i32[64]=zeros
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
    __shared__ unsigned long long barriers[2];
    unsigned full = static_cast<unsigned>(__cvta_generic_to_shared(&barriers[0])), empty = full + 8;
    int lane = threadIdx.x % 32;
    if (threadIdx.x == 0) {
        init(full, 32);
        init(empty, 32);
    }
    __syncthreads();
    if (threadIdx.x < 32) {
        tile[lane] = in[lane];
        arrive(full);
        wait(empty, 0);
        tile[lane] = in[32 + lane];  // BUG
        arrive(full);
    } else {
        wait(full, 0);
        out[lane] = tile[31 - lane];
        arrive(empty);
        wait(full, 0);
        out[32 + lane] = tile[31 - lane];  // BUG
    }
}
