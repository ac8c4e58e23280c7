// The same in one buffer, with a barrier before and after each store.
//
// launch: grid=2 block=64
// args: i32[128]=iota i32[128]=uninit
// bug: none
// expect 1: i32 0 1 3 6 10 15 21 28 36 45 55 66 78 91 105 120 136 153 171 190 210 231 253 276 300 325 351 378 406
// expect 1: i32 435 465 496 528 561 595 630 666 703 741 780 820 861 903 946 990 1035 1081 1128 1176 1225 1275 1326
// expect 1: i32 1378 1431 1485 1540 1596 1653 1711 1770 1830 1891 1953 2016 64 129 195 262 330 399 469 540 612 685
// expect 1: i32 759 834 910 987 1065 1144 1224 1305 1387 1470 1554 1639 1725 1812 1900 1989 2079 2170 2262 2355 2449
// expect 1: i32 2544 2640 2737 2835 2934 3034 3135 3237 3340 3444 3549 3655 3762 3870 3979 4089 4200 4312 4425 4539
// expect 1: i32 4654 4770 4887 5005 5124 5244 5365 5487 5610 5734 5859 5985 6112

extern "C" __global__ void scan(const int* in, int* out) {
    __shared__ int sums[64];
    int t = threadIdx.x;
    sums[t] = in[blockIdx.x * 64 + t];
    __syncthreads();
    for (int distance = 1; distance < 64; distance *= 2) {
        int left = t >= distance ? sums[t - distance] : 0;
        __syncthreads();  // so that nobody reads a sum of this round
        sums[t] += left;
        __syncthreads();
    }
    out[blockIdx.x * 64 + t] = sums[t];
}
