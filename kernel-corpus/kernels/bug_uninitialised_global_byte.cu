// Three colours a pixel are written, and the word is inverted with its fourth byte.
//
// launch: grid=1 block=32
// args: u8[96]=iota u8[128]=uninit u32[32]=zeros
// bug: uninitialised global

extern "C" __global__ void pack(const unsigned char* in, unsigned char* pixels, unsigned* out) {
    int t = threadIdx.x;
    for (int c = 0; c < 3; c++) pixels[4 * t + c] = in[3 * t + c];
    unsigned pixel = reinterpret_cast<const unsigned*>(pixels)[t];
    out[t] = ~pixel;  // BUG
}
