// One pass of a radix sort: counts, their scan, and a stable scatter.
//
// launch: grid=1 block=32
// args: u32[32]=iota u32[32]=uninit
// bug: none
// expect 1: u32 0 20 8 28 16 4 24 12 13 1 21 9 29 17 5 25 26 14 2 22 10 30 18 6 7 27 15 3 23 11 31 19

extern "C" __global__ void radix_pass(const unsigned* in, unsigned* out) {
    __shared__ int first[4];
    int lane = threadIdx.x;
    unsigned key = in[lane] * 13 % 32, digit = key & 3;
    unsigned same = __match_any_sync(0xffffffffu, digit);
    int rank = __popc(same & ((1u << lane) - 1));
    if (lane < 4) first[lane] = 0;
    __syncwarp();
    for (int d = 0; d < 3; d++) {
        int count = __popc(__ballot_sync(0xffffffffu, digit == d));
        if (lane > d && lane < 4) first[lane] += count;
    }
    __syncwarp();
    out[first[digit] + rank] = key;
}
