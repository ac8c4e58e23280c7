// A warp without work has returned, and the barrier still counts it.
//
// launch: grid=1 block=128
// args: i32[96]=iota i32[96]=zeros i32=96
// bug: deadlock

extern "C" __global__ void reverse(const int* in, int* out, int n) {
    __shared__ int tile[128];
    int t = threadIdx.x;
    if (t >= n) return;
    tile[t] = in[t];
    asm volatile("bar.sync 1, 128;" ::: "memory");  // BUG
    out[t] = tile[n - 1 - t];
}
