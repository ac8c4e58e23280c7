// The block's 48 threads are given as the barrier's count; it must be a multiple of the warp.
//
// launch: grid=1 block=48
// args: i32[48]=iota i32[48]=zeros
// bug: bad barrier

extern "C" __global__ void reverse(const int* in, int* out) {
    __shared__ int tile[48];
    int t = threadIdx.x;
    tile[t] = in[t];
    asm volatile("bar.sync 1, %0;" :: "r"(blockDim.x) : "memory");  // BUG
    out[t] = tile[47 - t];
}
