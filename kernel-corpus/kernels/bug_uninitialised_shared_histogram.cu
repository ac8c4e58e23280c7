// The block's own histogram is never set to zero.
//
// launch: grid=2 block=64
// args: i32[128]=iota i32[8]=zeros
// bug: uninitialised shared

extern "C" __global__ void histogram(const int* in, int* out) {
    __shared__ int counts[8];
    int t = threadIdx.x;
    atomicAdd(&counts[in[blockIdx.x * 64 + t] % 8], 1);  // BUG
    __syncthreads();
    if (t < 8) atomicAdd(&out[t], counts[t]);
}
