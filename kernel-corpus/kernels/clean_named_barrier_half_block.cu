// Two halves of a block work by themselves, each with its own barrier and tile.
//
// launch: grid=1 block=128
// args: i32[128]=iota i32[128]=uninit
// bug: none
// expect 1: i32 63 62 61 60 59 58 57 56 55 54 53 52 51 50 49 48 47 46 45 44 43 42 41 40 39 38 37 36 35 34 33 32 31
// expect 1: i32 30 29 28 27 26 25 24 23 22 21 20 19 18 17 16 15 14 13 12 11 10 9 8 7 6 5 4 3 2 1 0 128 127 126 125
// expect 1: i32 124 123 122 121 120 119 118 117 116 115 114 113 112 111 110 109 108 107 106 105 104 103 102 101 100
// expect 1: i32 99 98 97 96 95 94 93 92 91 90 89 88 87 86 85 84 83 82 81 80 79 78 77 76 75 74 73 72 71 70 69 68 67
// expect 1: i32 66 65

extern "C" __global__ void reverse_halves(const int* in, int* out) {
    __shared__ int tile[2][64];
    int half = threadIdx.x / 64, t = threadIdx.x % 64;
    for (int round = 0; round <= half; round++) {
        tile[half][t] = in[64 * half + t] + round;
        asm volatile("bar.sync %0, 64;" :: "r"(half + 1) : "memory");
        out[64 * half + t] = tile[half][63 - t];
        asm volatile("bar.sync %0, 64;" :: "r"(half + 1) : "memory");
    }
}
