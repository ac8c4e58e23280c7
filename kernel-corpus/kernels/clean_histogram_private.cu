// Blocks count in shared memory and add their counts at the end.
//
// launch: grid=3 block=64
// args: i32[192]=iota u32[10]=zeros
// bug: none
// expect 1: u32 20 19 19 20 19 19 19 19 19 19

extern "C" __global__ void histogram(const int* in, unsigned* counts) {
    __shared__ unsigned mine[10];
    int t = threadIdx.x;
    if (t < 10) mine[t] = 0;
    __syncthreads();
    atomicAdd(&mine[in[blockIdx.x * 64 + t] * 3 % 10], 1u);
    __syncthreads();
    if (t < 10) atomicAdd(&counts[t], mine[t]);
}
