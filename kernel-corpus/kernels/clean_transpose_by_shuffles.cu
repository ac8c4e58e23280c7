// An 8 by 4 matrix across a warp is transposed with shuffles by index.
//
// launch: grid=1 block=32
// args: i32[32]=iota i32[32]=uninit
// bug: none
// expect 1: i32 0 4 8 12 16 20 24 28 1 5 9 13 17 21 25 29 2 6 10 14 18 22 26 30 3 7 11 15 19 23 27 31

extern "C" __global__ void transpose(const int* in, int* out) {
    int lane = threadIdx.x, x = in[lane];
    out[lane] = __shfl_sync(0xffffffffu, x, lane % 8 * 4 + lane / 8);
}
