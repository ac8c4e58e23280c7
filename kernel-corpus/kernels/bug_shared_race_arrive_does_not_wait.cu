// The consumer reports at the barrier and goes on, where it should wait.
//
// launch: grid=1 block=64
// args: i32[32]=iota i32[32]=zeros
// bug: shared race

extern "C" __global__ void hand_over(const int* in, int* out) {
    __shared__ int slot[32];
    int t = threadIdx.x;
    if (t < 32) slot[t] = 0;
    __syncthreads();
    if (t < 32) {
        slot[t] = in[t] * 2;
        asm volatile("bar.sync 1, 64;" ::: "memory");
    } else {
        asm volatile("bar.arrive 1, 64;" ::: "memory");
        out[t - 32] = slot[t - 32];  // BUG
    }
}
