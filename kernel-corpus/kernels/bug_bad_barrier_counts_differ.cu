// Producer and consumer disagree on how many threads meet.
//
// launch: grid=1 block=96
// args: i32[32]=iota i32[64]=zeros
// bug: bad barrier

extern "C" __global__ void hand_over(const int* in, int* out) {
    __shared__ int slot[32];
    int t = threadIdx.x;
    if (t < 32) {
        slot[t] = in[t];
        asm volatile("bar.sync 1, 64;" ::: "memory");  // BUG
    } else {
        asm volatile("bar.sync 1, 96;" ::: "memory");  // BUG
        out[t - 32] = slot[t % 32];
    }
}
