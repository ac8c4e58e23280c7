// Three bytes of colour are copied as a word. Its fourth byte is never set, and never used.
//
// launch: grid=1 block=32
// args: u8[96]=iota u32[32]=uninit u32[32]=zeros
// bug: none
// expect 2: u32 3 12 21 30 39 48 57 66 75 84 93 102 111 120 129 138 147 156 165 174 183 192 201 210 219 228 237 246
// expect 2: u32 255 264 273 282

extern "C" __global__ void mirror(const unsigned char* in, unsigned* image, unsigned* out) {
    __shared__ unsigned pixels[32];
    int t = threadIdx.x;
    for (int c = 0; c < 3; c++) reinterpret_cast<unsigned char*>(&pixels[t])[c] = in[3 * t + c];
    __syncthreads();
    image[t] = pixels[31 - t];
    __syncthreads();
    const unsigned char* colours = reinterpret_cast<const unsigned char*>(image + 31 - t);
    out[t] = colours[0] + colours[1] + colours[2];
}
