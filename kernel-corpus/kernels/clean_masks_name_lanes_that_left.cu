// Lanes without an element return; the others name the whole warp, of which only they are left.
//
// launch: grid=1 block=64
// args: i32[52]=iota i32[52]=uninit i32=52
// bug: none
// expect 1: i32 1 0 3 2 5 4 7 6 9 8 11 10 13 12 15 14 17 16 19 18 21 20 23 22 25 24 27 26 29 28 31 30 133 132 135
// expect 1: i32 134 137 136 139 138 141 140 143 142 145 144 147 146 149 148 151 150

extern "C" __global__ void neighbours(const int* in, int* out, int n) {
    int t = threadIdx.x;
    if (t >= n) return;
    bool large = __all_sync(0xffffffffu, in[t] >= 32);
    out[t] = __shfl_xor_sync(0xffffffffu, in[t], 1) + 100 * large;
}
