// Three bytes of colour are copied as a word. The copy's fourth byte is taken for an opacity.
//
// launch: grid=1 block=32
// args: u8[96]=iota u32[32]=uninit u32[32]=zeros
// bug: uninitialised global

extern "C" __global__ void blend(const unsigned char* in, unsigned* image, unsigned* out) {
    __shared__ unsigned pixels[32];
    int t = threadIdx.x;
    for (int c = 0; c < 3; c++) reinterpret_cast<unsigned char*>(&pixels[t])[c] = in[3 * t + c];
    __syncthreads();
    image[t] = pixels[31 - t];
    __syncthreads();
    unsigned pixel = image[31 - t];
    out[t] = (pixel & 255) * (pixel >> 24);  // BUG
}
