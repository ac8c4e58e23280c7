// Each round replaces the values in place, with one grid.sync() in a round: none lies between
// the reads and the writes.
//
// launch: grid=4 block=32 cooperative=yes
// args: i32[128]=iota
// bug: global race

// What grid.sync() of cooperative_groups.h compiles to.
__device__ void grid_sync() {
    unsigned high, low, before, now;
    asm("mov.u32 %0, %%envreg1;" : "=r"(high));
    asm("mov.u32 %0, %%envreg2;" : "=r"(low));
    unsigned long long workspace = (unsigned long long)high << 32 | low;
    if (workspace == 0) __trap();
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

extern "C" __global__ void rounds(int* values) {
    int i = blockIdx.x * 32 + threadIdx.x;
    for (int round = 0; round < 3; round++) {
        int other = values[127 - i];  // BUG
        values[i] = other + i;        // BUG
        grid_sync();
    }
}
