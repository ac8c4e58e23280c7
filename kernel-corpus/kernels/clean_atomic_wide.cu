// Key and value in one 64-bit atomic minimum.
//
// launch: grid=2 block=64
// args: u32[128]=iota u64[1]={18446744073709551615}
// bug: none
// expect 1: u64 6

extern "C" __global__ void argmin(const unsigned* in, unsigned long long* best) {
    unsigned i = blockIdx.x * 64 + threadIdx.x;
    unsigned long long key = (in[i] * 77 + 50) % 128;
    atomicMin(best, key << 32 | i);
}
