// Blocks hand over twice by counters: maxima with a fence before the
// counter, then sums without one.
//
// launch: grid=5 block=32
// args: i32[160]=iota i32[5]=zeros i32[5]=zeros u32[2]=zeros i32[2]=zeros
// bug: global race

extern "C" __global__ void two_results(const int* in, int* maxima, int* sums, unsigned* done, int* out) {
    int t = threadIdx.x, b = blockIdx.x, x = in[b * 32 + t], most = x;
    for (int d = 16; d > 0; d /= 2) {
        most = max(most, __shfl_xor_sync(0xffffffffu, most, d));
        x += __shfl_xor_sync(0xffffffffu, x, d);
    }
    if (t != 0) return;
    maxima[b] = most;
    __threadfence();
    if (atomicAdd(&done[0], 1u) == gridDim.x - 1) {
        __threadfence();
        for (int other = 0; other < gridDim.x; other++) out[0] = max(out[0], maxima[other]);
    }
    sums[b] = x;  // BUG
    if (atomicAdd(&done[1], 1u) == gridDim.x - 1) {
        __threadfence();
        for (int other = 0; other < gridDim.x; other++) out[1] += sums[other];
    }
}
