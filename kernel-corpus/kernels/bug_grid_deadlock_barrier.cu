// A barrier between 2048 blocks of 48 KB of shared memory each: no GPU holds them all at once.
//
// launch: grid=2048 block=32 shared=49152
// args: u32[1]=zeros i32[2048]=zeros
// bug: grid deadlock

extern "C" __global__ void two_phases(unsigned* arrived, int* out) {
    extern __shared__ int tile[];
    tile[threadIdx.x * 384] = threadIdx.x;
    __syncwarp();
    if (threadIdx.x == 0) {
        __threadfence();
        atomicAdd(arrived, 1u);
        while (*static_cast<volatile unsigned*>(arrived) < gridDim.x) {}  // BUG
        __threadfence();
        out[blockIdx.x] = tile[31 * 384];
    }
}
