// Blocks set bits of one word by reading and writing it.
//
// launch: grid=8 block=32
// args: i32[256]=iota u32[1]=zeros
// bug: global race

extern "C" __global__ void any_divisible(const int* in, unsigned* bits) {
    int x = in[blockIdx.x * 32 + threadIdx.x];
    bool found = __any_sync(0xffffffffu, x % 7 == 0);
    if (threadIdx.x == 0) *bits |= static_cast<unsigned>(found) << blockIdx.x;  // UPDATE // BUG
}
