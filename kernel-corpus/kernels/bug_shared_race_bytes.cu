// Neighbouring bytes are fine; here two threads write different values to the same byte.
//
// launch: grid=1 block=64
// args: u8[64]=iota u8[32]=zeros
// bug: shared race

extern "C" __global__ void halve(const unsigned char* in, unsigned char* out) {
    __shared__ unsigned char kept[32];
    int t = threadIdx.x;
    kept[t / 2] = in[t];  // BUG
    __syncthreads();
    if (t < 32) out[t] = kept[t];
}
