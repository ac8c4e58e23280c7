// Bytes are read by all threads; those of the first warp are overwritten by the second,
// with no barrier between.
//
// launch: grid=1 block=64
// args: u8[64]=iota u8[64]=uninit
// bug: shared race

extern "C" __global__ void rotate(const unsigned char* in, unsigned char* out) {
    __shared__ unsigned char row[64];
    int t = threadIdx.x;
    row[t] = in[t];
    __syncthreads();
    int x = row[t];  // BUG
    if (t >= 32 && t % 4 == 0) row[t - 32] = x;  // BUG
    __syncthreads();
    out[t] = row[t] + x;
}
