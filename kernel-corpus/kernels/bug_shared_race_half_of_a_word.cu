// A 32-bit read covers the half that another thread writes.
//
// launch: grid=1 block=64
// args: u16[64]=iota u32[32]=zeros
// bug: shared race

extern "C" __global__ void pairs(const unsigned short* in, unsigned* out) {
    __shared__ __align__(4) unsigned short halves[64];
    int t = threadIdx.x;
    halves[t] = 0;
    __syncthreads();
    halves[t] = in[t];
    if (t >= 32) out[t - 32] = reinterpret_cast<const unsigned*>(halves)[t - 32];  // BUG
}
