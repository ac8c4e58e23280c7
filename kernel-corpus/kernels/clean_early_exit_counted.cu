// A warp without work returns; the others meet at a barrier that counts them only.
//
// launch: grid=1 block=128
// args: i32[96]=iota i32[96]=uninit i32=96
// bug: none
// expect 1: i32 95 94 93 92 91 90 89 88 87 86 85 84 83 82 81 80 79 78 77 76 75 74 73 72 71 70 69 68 67 66 65 64 63
// expect 1: i32 62 61 60 59 58 57 56 55 54 53 52 51 50 49 48 47 46 45 44 43 42 41 40 39 38 37 36 35 34 33 32 31 30
// expect 1: i32 29 28 27 26 25 24 23 22 21 20 19 18 17 16 15 14 13 12 11 10 9 8 7 6 5 4 3 2 1 0

extern "C" __global__ void reverse(const int* in, int* out, int n) {
    __shared__ int tile[96];
    int t = threadIdx.x;
    if (t >= n) return;
    tile[t] = in[t];
    asm volatile("bar.sync 1, %0;" :: "r"(n) : "memory");  // n is a multiple of 32
    out[t] = tile[n - 1 - t];
}
