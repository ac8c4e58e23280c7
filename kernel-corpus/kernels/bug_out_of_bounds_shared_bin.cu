// A value equal to the upper bound counts in a bin of its own, which the histogram does not have.
//
// launch: grid=1 block=64
// args: i32[64]=iota i32[9]=zeros
// bug: out of bounds

extern "C" __global__ void histogram(const int* in, int* out) {
    __shared__ int bins[8];
    __shared__ int total;
    int t = threadIdx.x;
    if (t < 8) bins[t] = 0;
    if (t == 8) total = 0;
    __syncthreads();
    atomicAdd(&bins[in[t] % 9], 1);  // BUG
    atomicAdd(&total, 1);
    __syncthreads();
    if (t < 8) out[t] = bins[t];
    if (t == 8) out[t] = total;
}
