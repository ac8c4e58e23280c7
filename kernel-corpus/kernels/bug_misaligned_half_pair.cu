// Pairs of 16-bit numbers are stored as one word at odd elements.
//
// launch: grid=1 block=16
// args: u16[34]=zeros
// bug: misaligned

extern "C" __global__ void store_pairs(unsigned short* out) {
    unsigned t = threadIdx.x;
    *reinterpret_cast<unsigned*>(out + 2 * t + 1) = t << 16 | t;  // BUG
}
