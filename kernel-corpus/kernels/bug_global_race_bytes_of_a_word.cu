// Two blocks write two bytes each of a word; a third block reads the whole word.
//
// launch: grid=3 block=32
// args: u32[32]=zeros u32[32]=zeros
// bug: global race

extern "C" __global__ void pack(unsigned* words, unsigned* out) {
    int t = threadIdx.x, b = blockIdx.x;
    if (b < 2) {
        unsigned char* bytes = reinterpret_cast<unsigned char*>(&words[t]) + 2 * b;
        bytes[0] = 1 + b;
        bytes[1] = 3 + b;
    } else {
        out[t] = words[t];  // BUG
    }
}
