// Values travel in pairs of which one half is set: as a union whose rest is never read,
// and packed into 64 bits.
//
// launch: grid=1 block=32
// args: i32[33]=iota u64[32]=uninit i32[32]=zeros i32[32]=zeros
// bug: none
// expect 2: i32 63 61 59 57 55 53 51 49 47 45 43 41 39 37 35 33 31 29 27 25 23 21 19 17 15 13 11 9 7 5 3 1
// expect 3: i32 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31

struct alignas(8) Pair {
    short count;
    int value;
};

union Word {
    Pair pair;
    unsigned long long bits;
};

extern "C" __global__ void exchange(const int* in, unsigned long long* words, int* sums, int* halves) {
    int t = threadIdx.x, x = in[t], half;
    Word word;
    word.pair.count = x;
    word.pair.value = in[t + 1];
    words[t] = word.bits;
    __syncwarp();
    word.bits = words[31 - t];
    sums[t] = word.pair.count + word.pair.value;
    // The high half, and bytes 0 and 3 of what is made of the low one, are set
    // nowhere and thrown away.
    asm volatile(
        "{ .reg .b64 pair; .reg .b32 unset, low;"
        "  mov.b64 pair, {%1, unset}; shl.b64 pair, pair, 8; shr.u64 pair, pair, 8; cvt.u32.u64 low, pair;"
        "  prmt.b32 low, low, unset, 0x4105; and.b32 low, low, 0xffff00; bfe.u32 %0, low, 8, 16; }"
        : "=r"(half) : "r"(x));
    halves[t] = half;
}
