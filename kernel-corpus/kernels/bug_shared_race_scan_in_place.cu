// An in-place scan with one barrier a round, where reading and writing must be kept apart by two.
//
// launch: grid=1 block=64
// args: i32[64]=iota i32[64]=zeros
// bug: shared race

extern "C" __global__ void scan(const int* in, int* out) {
    __shared__ int sums[64];
    int t = threadIdx.x;
    sums[t] = in[t];
    __syncthreads();
    for (int distance = 1; distance < 64; distance *= 2) {
        int left = t >= distance ? sums[t - distance] : 0;  // BUG
        sums[t] += left;                                    // BUG
        __syncthreads();
    }
    out[t] = sums[t];
}
