// Lanes with the same key find each other; each group shuffles and votes with its own
// mask, at one instruction.
//
// launch: grid=1 block=64
// args: i32[64]=iota i32[64]=uninit
// bug: none
// expect 1: i32 31 1041 2031 3030 4030 31 1041 2031 3030 4030 31 1041 2031 3030 4030 31 1041 2031 3030 4030 31 1041
// expect 1: i32 2031 3030 4030 31 1041 2030 3030 4030 30 1040 32031 33041 34031 35030 36030 32031 33041 34031 35030
// expect 1: i32 36030 32031 33041 34031 35030 36030 32031 33041 34031 35030 36030 32031 33041 34031 35030 36030
// expect 1: i32 32031 33041 34030 35030 36030 32030 33040

extern "C" __global__ void leaders(const int* in, int* out) {
    int t = threadIdx.x, lane = t % 32, x = in[t];
    unsigned group = __match_any_sync(0xffffffffu, x % 5);
    int first = __shfl_sync(group, x, __ffs(group) - 1);
    int odd = __popc(__ballot_sync(group, x % 2));
    int smallest = x;
    if (lane % 5 < 3) smallest = __shfl_sync(group, x, 31 - __clz(group));
    out[t] = 1000 * first + 10 * odd + (smallest > x);
}
