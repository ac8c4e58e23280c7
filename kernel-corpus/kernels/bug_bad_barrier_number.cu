// Each warp has a barrier of its own, and there are more warps than barriers.
//
// launch: grid=1 block=544
// args: i32[544]=iota i32[544]=zeros
// bug: bad barrier

extern "C" __global__ void reverse_rows(const int* in, int* out) {
    __shared__ int tile[544];
    int t = threadIdx.x, warp = t / 32;
    tile[t] = in[t];
    asm volatile("bar.sync %0, 32;" :: "r"(warp) : "memory");  // BUG
    out[t] = tile[t ^ 31];
}
