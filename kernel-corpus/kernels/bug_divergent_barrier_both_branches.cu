// Two branches with a barrier each: they are two barriers, and no warp comes
// to one of them as a whole.
//
// launch: grid=1 block=64
// args: i32[64]=iota i32[64]=zeros
// bug: divergent barrier

extern "C" __global__ void odd_even(const int* in, int* out) {
    __shared__ int tile[64];
    int t = threadIdx.x;
    if (t % 2 == 0) {
        tile[t] = in[t];
        __syncthreads();  // BUG
        out[t] = tile[t ^ 1] * 2;
    } else {
        tile[t] = -in[t];
        __syncthreads();  // BUG
        out[t] = tile[t ^ 1] * 3 + in[t];
    }
}
