// Warps scan by shuffles; each adds the sums of the warps before it.
//
// launch: grid=1 block=128
// args: i32[128]=iota i32[128]=uninit
// bug: none
// expect 1: i32 0 1 3 6 10 15 21 28 36 45 55 66 78 91 105 120 136 153 171 190 210 231 253 276 300 325 351 378 406
// expect 1: i32 435 465 496 528 561 595 630 666 703 741 780 820 861 903 946 990 1035 1081 1128 1176 1225 1275 1326
// expect 1: i32 1378 1431 1485 1540 1596 1653 1711 1770 1830 1891 1953 2016 2080 2145 2211 2278 2346 2415 2485 2556
// expect 1: i32 2628 2701 2775 2850 2926 3003 3081 3160 3240 3321 3403 3486 3570 3655 3741 3828 3916 4005 4095 4186
// expect 1: i32 4278 4371 4465 4560 4656 4753 4851 4950 5050 5151 5253 5356 5460 5565 5671 5778 5886 5995 6105 6216
// expect 1: i32 6328 6441 6555 6670 6786 6903 7021 7140 7260 7381 7503 7626 7750 7875 8001 8128

extern "C" __global__ void scan(const int* in, int* out) {
    __shared__ int totals[4];
    int t = threadIdx.x, lane = t % 32, warp = t / 32, x = in[t];
    for (int d = 1; d < 32; d *= 2) {
        int left = __shfl_up_sync(0xffffffffu, x, d);
        if (lane >= d) x += left;
    }
    if (lane == 31) totals[warp] = x;
    __syncthreads();
    for (int w = 0; w < warp; w++) x += totals[w];
    out[t] = x;
}
