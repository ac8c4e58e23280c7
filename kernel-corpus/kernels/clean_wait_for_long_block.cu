// The threads of the last block take numbers from a counter in shared memory, for a long time,
// while the other blocks wait for what comes of it.
//
// launch: grid=65 block=64
// args: u32[1]=zeros u32[8]=uninit u32[64]=uninit
// bug: none
// expect 1: u32 26667 13333 13333 13333 13333 13333 13334 13334
// expect 2: u32 26667 13333 13333 13333 13333 13333 13334 13334 26667 13333 13333 13333 13333 13333 13334 13334
// expect 2: u32 26667 13333 13333 13333 13333 13333 13334 13334 26667 13333 13333 13333 13333 13333 13334 13334
// expect 2: u32 26667 13333 13333 13333 13333 13333 13334 13334 26667 13333 13333 13333 13333 13333 13334 13334
// expect 2: u32 26667 13333 13333 13333 13333 13333 13334 13334 26667 13333 13333 13333 13333 13333 13334 13334

extern "C" __global__ void count(unsigned* ready, unsigned* counts, unsigned* out) {
    __shared__ unsigned bins[8], next;
    int t = threadIdx.x, b = blockIdx.x;
    if (b == gridDim.x - 1) {
        if (t < 8) bins[t] = 0;
        if (t == 0) next = 0;
        __syncthreads();
        for (unsigned i; (i = atomicAdd(&next, 1u)) < 120000;) atomicAdd(&bins[(i * 7 + i / 9) % 8], 1u);
        __syncthreads();
        if (t < 8) counts[t] = bins[t];
        __threadfence();
        __syncthreads();  // all threads have fenced before the flag
        if (t == 0) atomicExch(ready, 1u);
    } else if (t == 0) {
        while (atomicAdd(ready, 0u) == 0) {}
        __threadfence();
        out[b] = counts[b % 8];
    }
}
