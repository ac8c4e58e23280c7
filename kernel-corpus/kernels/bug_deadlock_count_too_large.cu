// A barrier for five warps in a block of four.
//
// launch: grid=1 block=128
// args: i32[128]=iota i32[128]=zeros
// bug: deadlock

extern "C" __global__ void reverse(const int* in, int* out) {
    __shared__ int tile[128];
    int t = threadIdx.x;
    tile[t] = in[t];
    asm volatile("bar.sync 1, 160;" ::: "memory");  // BUG
    out[t] = tile[127 - t];
}
