// A scan over blocks: each waits for the sum before it, which a fence keeps ahead of its flag.
// Tickets give blocks their order.
//
// launch: grid=6 block=32
// args: i32[192]=iota i32[192]=uninit i32[6]=uninit i32[6]=zeros u32[1]=zeros
// bug: none
// expect 1: i32 0 1 3 6 10 15 21 28 36 45 55 66 78 91 105 120 136 153 171 190 210 231 253 276 300 325 351 378 406
// expect 1: i32 435 465 496 528 561 595 630 666 703 741 780 820 861 903 946 990 1035 1081 1128 1176 1225 1275 1326
// expect 1: i32 1378 1431 1485 1540 1596 1653 1711 1770 1830 1891 1953 2016 2080 2145 2211 2278 2346 2415 2485 2556
// expect 1: i32 2628 2701 2775 2850 2926 3003 3081 3160 3240 3321 3403 3486 3570 3655 3741 3828 3916 4005 4095 4186
// expect 1: i32 4278 4371 4465 4560 4656 4753 4851 4950 5050 5151 5253 5356 5460 5565 5671 5778 5886 5995 6105 6216
// expect 1: i32 6328 6441 6555 6670 6786 6903 7021 7140 7260 7381 7503 7626 7750 7875 8001 8128 8256 8385 8515 8646
// expect 1: i32 8778 8911 9045 9180 9316 9453 9591 9730 9870 10011 10153 10296 10440 10585 10731 10878 11026 11175
// expect 1: i32 11325 11476 11628 11781 11935 12090 12246 12403 12561 12720 12880 13041 13203 13366 13530 13695
// expect 1: i32 13861 14028 14196 14365 14535 14706 14878 15051 15225 15400 15576 15753 15931 16110 16290 16471
// expect 1: i32 16653 16836 17020 17205 17391 17578 17766 17955 18145 18336
// expect 2: i32 496 2016 4560 8128 12720 18336

extern "C" __global__ void scan(const int* in, int* out, int* sums, volatile int* ready, unsigned* tickets) {
    int lane = threadIdx.x, b = 0, before = 0;
    if (lane == 0) b = atomicAdd(tickets, 1u);
    b = __shfl_sync(0xffffffffu, b, 0);
    int x = in[b * 32 + lane];
    for (int d = 1; d < 32; d *= 2) {
        int left = __shfl_up_sync(0xffffffffu, x, d);
        if (lane >= d) x += left;
    }
    if (lane == 31) {
        if (b > 0) {
            while (ready[b - 1] == 0) {}
            __threadfence();
            before = sums[b - 1];
        }
        sums[b] = before + x;
        __threadfence();
        ready[b] = 1;
    }
    before = __shfl_sync(0xffffffffu, before, 31);
    out[b * 32 + lane] = before + x;
}
