// Hillis and Steele's scan between two buffers: one barrier a round is enough.
//
// launch: grid=1 block=64
// args: i32[64]=iota i32[64]=uninit
// bug: none
// expect 1: i32 0 1 3 6 10 15 21 28 36 45 55 66 78 91 105 120 136 153 171 190 210 231 253 276 300 325 351 378 406
// expect 1: i32 435 465 496 528 561 595 630 666 703 741 780 820 861 903 946 990 1035 1081 1128 1176 1225 1275 1326
// expect 1: i32 1378 1431 1485 1540 1596 1653 1711 1770 1830 1891 1953 2016

extern "C" __global__ void scan(const int* in, int* out) {
    __shared__ int sums[2][64];
    int t = threadIdx.x, from = 0;
    sums[0][t] = in[t];
    __syncthreads();
    for (int distance = 1; distance < 64; distance *= 2) {
        sums[1 - from][t] = sums[from][t] + (t >= distance ? sums[from][t - distance] : 0);
        from = 1 - from;
        __syncthreads();
    }
    out[t] = sums[from][t];
}
