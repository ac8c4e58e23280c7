// grid.sync() in a launch that is not cooperative: there is no workspace for it.
//
// launch: grid=4 block=32
// args: i32[128]=iota i32[128]=uninit i32[128]=uninit
// bug: trap

// What grid.sync() of cooperative_groups.h compiles to.
__device__ void grid_sync() {
    unsigned high, low, before, now;
    asm("mov.u32 %0, %%envreg1;" : "=r"(high));
    asm("mov.u32 %0, %%envreg2;" : "=r"(low));
    unsigned long long workspace = (unsigned long long)high << 32 | low;
    if (workspace == 0) __trap();  // BUG
    __syncthreads();
    if (threadIdx.x == 0) {
        // All parts together are 2^31: the top bit changes when the last block has come.
        unsigned part = blockIdx.x == 0 ? 0x80000000u - (gridDim.x - 1) : 1;
        asm volatile("atom.add.release.gpu.u32 %0, [%1], %2;" : "=r"(before) : "l"(workspace + 4), "r"(part) : "memory");
        do {
            asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(now) : "l"(workspace + 4) : "memory");
        } while (((now ^ before) >> 31) == 0);
    }
    __syncthreads();
}

extern "C" __global__ void two_phases(const int* in, int* between, int* out) {
    int i = blockIdx.x * 32 + threadIdx.x;
    between[i] = in[i];
    grid_sync();
    out[i] = between[127 - i] + i;
}
