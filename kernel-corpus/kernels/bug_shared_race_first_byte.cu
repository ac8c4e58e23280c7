// Four threads write the bytes of a word; the next warp reads the first of them,
// with no barrier between.
//
// launch: grid=1 block=64
// args: u8[32]=iota u8[32]=uninit
// bug: shared race

extern "C" __global__ void groups(const unsigned char* in, unsigned char* out) {
    __shared__ unsigned char row[32];
    int t = threadIdx.x;
    if (t < 32) row[t] = 0;
    __syncthreads();
    if (t < 32) row[t] = in[t];  // BUG
    if (t >= 32) out[t - 32] = row[t % 32 / 4 * 4];  // BUG
}
