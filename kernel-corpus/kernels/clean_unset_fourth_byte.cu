// Three bytes of colour lie in a word that is loaded whole. A shift or a
// mask takes out what is used.
//
// launch: grid=1 block=32
// args: u8[96]=iota u32[32]=zeros i32=8 u32=0xffff
// bug: none
// expect 1: u32 1566 1548 1530 1512 1494 1476 1458 1440 1422 1404 1386 1368 1350 1332 1314 296 278 260 242 224 206
// expect 1: u32 188 170 152 134 116 98 80 62 44 26 8

extern "C" __global__ void mix(const unsigned char* in, unsigned* out, int channel, unsigned mask) {
    __shared__ unsigned pixels[32];
    int t = threadIdx.x;
    for (int c = 0; c < 3; c++) reinterpret_cast<unsigned char*>(&pixels[t])[c] = in[3 * t + c];
    __syncthreads();
    unsigned pixel = pixels[31 - t];
    unsigned green = pixel >> channel & 255, red = pixel & mask & 255, blue = pixel >> 16 & 255;
    bool bright = (pixel & 0xff) > 40 && (pixel >> 8 & 0xff) > 50;
    out[t] = red + 2 * green + 3 * blue + (bright ? 1000 : 0);
}
