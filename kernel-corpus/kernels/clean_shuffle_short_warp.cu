// A block of 48: the second warp reduces with a mask of its 16 lanes.
//
// launch: grid=1 block=48
// args: i32[48]=iota i32[2]=uninit
// bug: none
// expect 1: i32 496 632

extern "C" __global__ void warp_sums(const int* in, int* out) {
    int t = threadIdx.x, x = in[t];
    unsigned mask = t < 32 ? 0xffffffffu : 0x0000ffffu;
    for (int d = t < 32 ? 16 : 8; d > 0; d /= 2) x += __shfl_xor_sync(mask, x, d);
    if (t % 32 == 0) out[t / 32] = x;
}
