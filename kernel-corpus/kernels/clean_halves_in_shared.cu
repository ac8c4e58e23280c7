// 16-bit elements of a shared tile, written by neighbours, read across the block.
//
// launch: grid=1 block=64
// args: f16[64]=iota f16[64]=uninit
// bug: none
// expect 1: f16 63 62 61 60 59 58 57 56 55 54 53 52 51 50 49 48 47 46 45 44 43 42 41 40 39 38 37 36 35 34 33 32 31
// expect 1: f16 30 29 28 27 26 25 24 23 22 21 20 19 18 17 16 15 14 13 12 11 10 9 8 7 6 5 4 3 2 1 0

extern "C" __global__ void reverse(const unsigned short* in, unsigned short* out) {
    __shared__ unsigned short tile[64];
    int t = threadIdx.x;
    tile[t] = in[t];
    __syncthreads();
    out[t] = tile[63 - t];
}
