// Each warp takes as many rounds as it has rows: the barrier in the loop of one pairs with that
// behind the loop of the other.
//
// launch: grid=1 block=64
// args: i32[96]=iota i32[64]=zeros
// bug: different barriers

extern "C" __global__ void sums(const int* in, int* out) {
    __shared__ int rows[64];
    int t = threadIdx.x, rounds = t < 32 ? 2 : 1, sum = 0;
#pragma unroll 1
    for (int i = 0; i < rounds; i++) {
        sum += in[t + 64 * i];
        rows[t] = sum;
        __syncthreads();  // BUG
    }
    rows[t] += 1;
    __syncthreads();  // BUG
    out[t] = rows[t];
}
