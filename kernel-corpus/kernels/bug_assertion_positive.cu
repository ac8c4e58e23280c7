// An assertion on a sum that is negative in one block.
//
// launch: grid=4 block=32
// args: i32[128]=iota i32[4]=zeros
// bug: assertion

extern "C" __global__ void sums(const int* in, int* out) {
    int x = 70 - in[blockIdx.x * 32 + threadIdx.x];
    for (int d = 16; d > 0; d /= 2) x += __shfl_xor_sync(0xffffffffu, x, d);
    assert(x > 0);  // BUG
    if (threadIdx.x == 0) out[blockIdx.x] = x;
}
