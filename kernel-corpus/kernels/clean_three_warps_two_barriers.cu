// A chain of warps: the first meets the second, the second the third; the order goes all the way.
//
// launch: grid=1 block=96
// args: i32[32]=iota i32[32]=uninit
// bug: none
// expect 1: i32 38 37 36 35 34 33 32 31 30 29 28 27 26 25 24 23 22 21 20 19 18 17 16 15 14 13 12 11 10 9 8 7

extern "C" __global__ void chain(const int* in, int* out) {
    __shared__ int row[32];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (warp == 0) {
        row[lane] = in[lane] + 7;
        asm volatile("bar.arrive 1, 64;" ::: "memory");
    } else if (warp == 1) {
        asm volatile("bar.sync 1, 64;" ::: "memory");
        asm volatile("bar.arrive 2, 64;" ::: "memory");
    } else {
        asm volatile("bar.sync 2, 64;" ::: "memory");
        out[lane] = row[31 - lane];
    }
}
