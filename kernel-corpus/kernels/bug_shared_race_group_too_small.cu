// A barrier for two warps, where a third one reads what they write.
//
// launch: grid=1 block=96
// args: i32[96]=iota i32[96]=zeros
// bug: shared race

extern "C" __global__ void rotate(const int* in, int* out) {
    __shared__ int tile[96];
    int t = threadIdx.x;
    tile[t] = 0;
    __syncthreads();
    tile[t] = in[t];
    if (t < 64) asm volatile("bar.sync 1, 64;" ::: "memory");
    out[t] = tile[(t + 64) % 96];  // BUG
}
