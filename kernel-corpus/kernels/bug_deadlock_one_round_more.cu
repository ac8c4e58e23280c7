// The consumer waits for one item more than the producer makes.
//
// launch: grid=1 block=64
// args: i32[96]=iota i32[128]=zeros
// bug: deadlock

extern "C" __global__ void pipeline(const int* in, int* out) {
    __shared__ int slot[32];
    int lane = threadIdx.x % 32;
    if (threadIdx.x < 32) {
        for (int i = 0; i < 3; i++) {
            slot[lane] = in[i * 32 + lane];
            asm volatile("bar.sync 1, 64;" ::: "memory");  // full
            asm volatile("bar.sync 2, 64;" ::: "memory");  // empty
        }
    } else {
        for (int i = 0; i < 4; i++) {
            asm volatile("bar.sync 1, 64;" ::: "memory");  // BUG
            out[i * 32 + lane] = slot[lane];
            asm volatile("bar.sync 2, 64;" ::: "memory");
        }
    }
}
