// Each warp sums until its own sum is large enough, with a barrier in every round: the warps
// stop at different rounds.
//
// launch: grid=1 block=64
// args: i32[64]=iota i32[64]=zeros
// bug: different barriers

extern "C" __global__ void sum_until(const int* in, int* out) {
    __shared__ int rows[64];
    int t = threadIdx.x, sum = in[t];
#pragma unroll 1
    while (true) {
        sum += __shfl_sync(0xffffffffu, in[t], 31);
        rows[t] = sum;
        __syncthreads();  // BUG
        if (__all_sync(0xffffffffu, sum >= 60)) break;
    }
    __syncthreads();  // BUG
    out[t] = rows[t];
}
