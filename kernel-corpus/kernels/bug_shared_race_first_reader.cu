// Two warps have read an element, and the one that overwrites it has met only one of them.
//
// launch: grid=1 block=96
// args: i32[32]=iota i32[96]=zeros
// bug: shared race

extern "C" __global__ void overwrite(const int* in, int* out) {
    __shared__ int row[32];
    int t = threadIdx.x, warp = t / 32, lane = t % 32;
    if (warp == 0) row[lane] = in[lane];
    __syncthreads();
    int x = row[31 - lane];  // BUG
    if (warp > 0) asm volatile("bar.sync 1, 64;" ::: "memory");
    if (warp == 2) row[lane] = x + 1;  // BUG
    out[t] = x;
}
