// Each thread copies an element; a barrier in shared memory tells when all copies have ended.
//
// arch: compute_80
// launch: grid=2 block=64
// args: f32[128]=iota f32[128]=uninit
// bug: none
// expect 1: f32 63 62 61 60 59 58 57 56 55 54 53 52 51 50 49 48 47 46 45 44 43 42 41 40 39 38 37 36 35 34 33 32 31
// expect 1: f32 30 29 28 27 26 25 24 23 22 21 20 19 18 17 16 15 14 13 12 11 10 9 8 7 6 5 4 3 2 1 0 127 126 125 124
// expect 1: f32 123 122 121 120 119 118 117 116 115 114 113 112 111 110 109 108 107 106 105 104 103 102 101 100 99
// expect 1: f32 98 97 96 95 94 93 92 91 90 89 88 87 86 85 84 83 82 81 80 79 78 77 76 75 74 73 72 71 70 69 68 67 66
// expect 1: f32 65 64

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

// Copies 4 bytes; and an arrival when the thread's copies have ended.
__device__ void copy4(float* to, const float* from) {
    unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(at), "l"(from) : "memory");
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
    wait(ready, 0);
    out[first + t] = tile[63 - t];
}
