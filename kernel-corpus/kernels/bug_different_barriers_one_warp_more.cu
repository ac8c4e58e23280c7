// A barrier that only one warp comes to: it pairs with the next one of the others, and all
// that follow are out of step.
//
// launch: grid=1 block=64
// args: i32[64]=iota i32[64]=zeros
// bug: different barriers

extern "C" __global__ void reverse(const int* in, int* out) {
    __shared__ int tile[64];
    int t = threadIdx.x;
    tile[t] = in[t];
    if (t < 32) __syncthreads();  // BUG
    __syncthreads();  // BUG
    out[t] = tile[63 - t];
}
