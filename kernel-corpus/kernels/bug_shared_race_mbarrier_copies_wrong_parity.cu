// Copies of a second round arrive at a barrier, but the wait is for the phase of the first round.
//
// arch: compute_80
// launch: grid=1 block=64
// args: f32[128]=iota f32[128]=zeros
// bug: shared race

// The barrier of `count` arrivals in each phase, and the wait for the phase of this parity.
__device__ void init(unsigned barrier, unsigned count) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}
__device__ void wait(unsigned barrier, unsigned parity) {
    unsigned over;
    do {
        asm volatile(
            "{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
            : "=r"(over) : "r"(barrier), "r"(parity) : "memory");
    } while (!over);
}

// Copies 4 bytes; and an arrival when the thread's copies have ended.
__device__ void copy4(float* to, const float* from) {
    unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(at), "l"(from) : "memory");  // BUG
}
__device__ void copies_arrive(unsigned barrier) {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(barrier) : "memory");
}

extern "C" __global__ void reverse(const float* in, float* out) {
    __shared__ float tile[64];
    __shared__ unsigned long long barriers[1];
    unsigned ready = static_cast<unsigned>(__cvta_generic_to_shared(&barriers[0]));
    int t = threadIdx.x;
    if (t == 0) init(ready, 64);
    __syncthreads();
    copy4(&tile[t], &in[t]);
    copies_arrive(ready);
    wait(ready, 0);
    out[t] = tile[63 - t];
    __syncthreads();
    copy4(&tile[t], &in[64 + t]);
    copies_arrive(ready);
    wait(ready, 0);
    out[64 + t] = tile[63 - t];  // BUG
}
