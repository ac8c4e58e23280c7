// An odd number of halves, loaded in pairs: the last pair's high half, which
// nobody sets, enters the sum.
//
// launch: grid=1 block=32
// args: u16[63]=iota u32[32]=zeros i32=63
// bug: uninitialised shared

extern "C" __global__ void sums(const unsigned short* in, unsigned* out, int n) {
    __shared__ unsigned pairs[32];
    int t = threadIdx.x;
    unsigned short* halves = reinterpret_cast<unsigned short*>(pairs);
    for (int i = t; i < n; i += 32) halves[i] = in[i];
    __syncthreads();
    unsigned pair = pairs[31 - t];
    out[t] = (pair & 0xffff) + (pair >> 16);  // BUG
}
