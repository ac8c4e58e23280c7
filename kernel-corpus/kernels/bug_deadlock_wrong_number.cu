// The producer reports at barrier 1, the consumer listens at barrier 2.
//
// launch: grid=1 block=64
// args: i32[32]=iota i32[32]=zeros
// bug: deadlock

extern "C" __global__ void hand_over(const int* in, int* out) {
    __shared__ int slot[32];
    int lane = threadIdx.x % 32;
    if (threadIdx.x < 32) {
        slot[lane] = in[lane];
        asm volatile("bar.arrive 1, 64;" ::: "memory");
    } else {
        asm volatile("bar.sync 2, 64;" ::: "memory");  // BUG
        out[lane] = slot[lane];
    }
}
