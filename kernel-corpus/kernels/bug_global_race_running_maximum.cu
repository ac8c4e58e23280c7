// Blocks compare and store a maximum in two steps.
//
// launch: grid=8 block=32
// args: i32[256]=iota i32[1]=zeros
// bug: global race

extern "C" __global__ void maximum(const int* in, int* best) {
    int x = in[blockIdx.x * 32 + threadIdx.x];
    for (int d = 16; d > 0; d /= 2) x = max(x, __shfl_xor_sync(0xffffffffu, x, d));
    if (threadIdx.x == 0 && x > *best) *best = x;  // BUG
}
