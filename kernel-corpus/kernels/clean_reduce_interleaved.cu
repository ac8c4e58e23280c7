// The textbook's first reduction: interleaved addressing, divergent within warps, and correct.
//
// launch: grid=2 block=64
// args: i32[128]=iota i32[2]=uninit
// bug: none
// expect 1: i32 2016 6112

extern "C" __global__ void reduce(const int* in, int* out) {
    __shared__ int sums[64];
    int t = threadIdx.x;
    sums[t] = in[blockIdx.x * 64 + t];
    for (int step = 1; step < 64; step *= 2) {
        __syncthreads();
        if (t % (2 * step) == 0) sums[t] += sums[t + step];
    }
    if (t == 0) out[blockIdx.x] = sums[0];  // its own last store
}
