// A barrier that half of a warp takes, and a tile that the other half reads
// before the next barrier.
//
// launch: grid=1 block=32
// args: i32[32]=iota i32[32]=zeros
// bug: divergent barrier

extern "C" __global__ void mirror(const int* in, int* out) {
    __shared__ int tile[32];
    int t = threadIdx.x;
    tile[t] = in[t];
    if (t < 16) __syncthreads();  // BUG
    int other = tile[31 - t];
    __syncthreads();
    tile[t] = in[t] + other;
    __syncthreads();
    out[t] = tile[t ^ 1];
}
