// Copies arrive at a barrier in shared memory, but nobody waits for its phase.
//
// arch: compute_80
// launch: grid=1 block=64
// args: f32[64]=iota f32[64]=zeros
// bug: shared race

// The barrier of `count` arrivals in each phase.
__device__ void init(unsigned barrier, unsigned count) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
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
    int t = threadIdx.x, first = 64 * blockIdx.x;
    tile[t] = 0.0f;
    if (t == 0) init(ready, 64);
    __syncthreads();
    copy4(&tile[t], &in[first + t]);
    copies_arrive(ready);
    out[first + t] = tile[63 - t];  // BUG
}
