// Three bytes of colour lie in a word, and a comparison of words decides by the fourth.
//
// launch: grid=1 block=32
// args: u8[96]=iota u32[32]=zeros
// bug: uninitialised shared

extern "C" __global__ void brighter(const unsigned char* in, unsigned* out) {
    __shared__ unsigned pixels[32];
    int t = threadIdx.x;
    for (int c = 0; c < 3; c++) reinterpret_cast<unsigned char*>(&pixels[t])[c] = in[3 * t + c];
    __syncthreads();
    unsigned pixel = pixels[31 - t];
    if (pixel > 0x404040) {  // BUG
        out[t] = 1;
    }
}
