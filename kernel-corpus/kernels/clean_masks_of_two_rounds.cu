// Half-warps exchange in the first round, the whole warp in the second; the upper half comes to the
// first round when the lower half waits in the second already.
//
// launch: grid=1 block=32
// args: i32[32]=iota i32[32]=uninit i32[1]=zeros
// bug: none
// expect 1: i32 34 34 42 42 50 50 58 58 66 66 74 74 82 82 90 90 34 34 42 42 50 50 58 58 66 66 74 74 82 82 90 90

extern "C" __global__ void rounds(const int* in, int* out, volatile int* flag) {
    int lane = threadIdx.x, x = in[lane];
#pragma unroll 1
    for (int round = 0; round < 2; round++) {
        if (round == 0 && lane >= 16) {
            while (*flag == 0) {
            }
        }
        unsigned half = lane < 16 ? 0x0000ffffu : 0xffff0000u;
        x += __shfl_xor_sync(round == 0 ? half : 0xffffffffu, x, round == 0 ? 1 : 16);
        if (round == 0 && lane == 0) *flag = 1;
    }
    out[lane] = x;
}
