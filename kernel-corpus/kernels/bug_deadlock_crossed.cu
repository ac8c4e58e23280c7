// Two warps wait for each other at two barriers in opposite order.
//
// launch: grid=1 block=64
// args: i32[64]=iota i32[64]=zeros
// bug: deadlock

extern "C" __global__ void exchange(const int* in, int* out) {
    __shared__ int tile[64];
    int t = threadIdx.x;
    tile[t] = in[t];
    if (t < 32) {
        asm volatile("bar.sync 1, 64;" ::: "memory");  // BUG
        asm volatile("bar.sync 2, 64;" ::: "memory");
    } else {
        asm volatile("bar.sync 2, 64;" ::: "memory");  // BUG
        asm volatile("bar.sync 1, 64;" ::: "memory");
    }
    out[t] = tile[63 - t];
}
