// A warp sorts its 32 values by shuffles.
//
// launch: grid=1 block=32
// args: i32[32]=iota i32[32]=uninit
// bug: none
// expect 1: i32 -8 -7 -6 -5 -4 -3 -2 -1 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23

extern "C" __global__ void sort(const int* in, int* out) {
    int lane = threadIdx.x, x = in[lane] * 19 % 32 - 8;
    for (int size = 2; size <= 32; size *= 2) {
        for (int d = size / 2; d > 0; d /= 2) {
            int other = __shfl_xor_sync(0xffffffffu, x, d);
            bool ascending = (lane & size) == 0, low = (lane & d) == 0;
            x = low == ascending ? min(x, other) : max(x, other);
        }
    }
    out[lane] = x;
}
