// Bytes are written at every fourth place; the word around one is counted up.
//
// launch: grid=1 block=32
// args: u8[32]=iota u32[32]=zeros
// bug: uninitialised shared

extern "C" __global__ void widen(const unsigned char* in, unsigned* out) {
    __shared__ unsigned words[32];
    int t = threadIdx.x;
    reinterpret_cast<unsigned char*>(&words[t])[0] = in[t];
    __syncwarp();
    out[t] = words[31 - t] + 1;  // BUG
}
