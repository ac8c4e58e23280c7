// Groups of eight vote with a mask that is shifted one group too far.
//
// launch: grid=1 block=32
// args: i32[32]=iota i32[32]=zeros
// bug: missing lanes

extern "C" __global__ void group_any(const int* in, int* out) {
    int lane = threadIdx.x, group = lane / 8;
    unsigned mask = 0xffu << (8 * ((group + 1) % 4));
    out[lane] = __any_sync(mask, in[lane] % 13 == 12);  // BUG
}
