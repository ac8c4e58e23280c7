// Half-warps exchange through shared memory within themselves, and synchronise as halves.
//
// launch: grid=1 block=32
// args: i32[32]=iota i32[32]=uninit
// bug: none
// expect 1: i32 17 16 15 14 13 12 11 10 9 8 7 6 5 4 3 2 33 32 31 30 29 28 27 26 25 24 23 22 21 20 19 18

extern "C" __global__ void reverse_halves(const int* in, int* out) {
    __shared__ int row[32];
    int lane = threadIdx.x;
    unsigned half = lane < 16 ? 0x0000ffffu : 0xffff0000u;
    for (int round = 0; round < 3; round++) {
        row[lane] = in[lane] + round;
        __syncwarp(half);
        out[lane] = row[lane ^ 15];
        __syncwarp(half);
    }
}
