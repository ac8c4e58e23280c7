// A barrier between blocks: arrive, wait until all have, with fences; then blocks
// read each other's results.
//
// launch: grid=4 block=32
// args: i32[128]=iota i32[128]=uninit u32[1]=zeros i32[128]=uninit
// bug: none
// expect 3: i32 254 254 254 254 254 254 254 254 254 254 254 254 254 254 254 254 254 254 254 254 254 254 254 254 254
// expect 3: i32 254 254 254 254 254 254 254 254 254 254 254 254 254 254 254 254 254 254 254 254 254 254 254 254 254
// expect 3: i32 254 254 254 254 254 254 254 254 254 254 254 254 254 254 254 254 254 254 254 254 254 254 254 254 254
// expect 3: i32 254 254 254 254 254 254 254 254 254 254 254 254 254 254 254 254 254 254 254 254 254 254 254 254 254
// expect 3: i32 254 254 254 254 254 254 254 254 254 254 254 254 254 254 254 254 254 254 254 254 254 254 254 254 254
// expect 3: i32 254 254 254

__device__ void grid_sync(unsigned* arrived, unsigned goal) {
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        atomicAdd(arrived, 1u);
        while (*static_cast<volatile unsigned*>(arrived) < goal) {}
        __threadfence();
    }
    __syncthreads();
}

extern "C" __global__ void two_phases(const int* in, int* between, unsigned* arrived, int* out) {
    int i = blockIdx.x * 32 + threadIdx.x;
    between[i] = in[i] * 2;
    grid_sync(arrived, gridDim.x);
    out[i] = between[i] + between[127 - i];
}
