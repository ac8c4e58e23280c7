// A histogram in shared memory counts without atomics.
//
// launch: grid=1 block=128
// args: u8[128]=iota u32[8]=zeros
// bug: shared race

extern "C" __global__ void histogram(const unsigned char* in, unsigned* out) {
    __shared__ unsigned counts[8];
    int t = threadIdx.x;
    if (t < 8) counts[t] = 0;
    __syncthreads();
    counts[in[t] % 8]++;  // UPDATE // BUG
    __syncthreads();
    if (t < 8) out[t] = counts[t];
}
