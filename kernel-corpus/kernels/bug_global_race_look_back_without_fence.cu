// A chained scan publishes each block's running sum by a flag, with no fence between them.
//
// launch: grid=4 block=32
// args: i32[128]=iota i32[4]=zeros i32[4]=zeros
// bug: global race

extern "C" __global__ void running_sums(const int* in, int* sums, volatile int* ready) {
    int b = blockIdx.x, x = in[b * 32 + threadIdx.x];
    for (int d = 16; d > 0; d /= 2) x += __shfl_xor_sync(0xffffffffu, x, d);
    if (threadIdx.x != 0) return;
    if (b > 0) {
        while (ready[b - 1] == 0) {}
        __threadfence();
        x += sums[b - 1];
    }
    sums[b] = x;  // BUG
    ready[b] = 1;
}
