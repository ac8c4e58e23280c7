// Warp 0 fills a slot, warp 1 empties it; one named barrier says full, one says empty.
//
// launch: grid=1 block=64
// args: i32[128]=iota i32[128]=uninit
// bug: none
// expect 1: i32 32 31 30 29 28 27 26 25 24 23 22 21 20 19 18 17 16 15 14 13 12 11 10 9 8 7 6 5 4 3 2 1 64 63 62 61
// expect 1: i32 60 59 58 57 56 55 54 53 52 51 50 49 48 47 46 45 44 43 42 41 40 39 38 37 36 35 34 33 96 95 94 93 92
// expect 1: i32 91 90 89 88 87 86 85 84 83 82 81 80 79 78 77 76 75 74 73 72 71 70 69 68 67 66 65 128 127 126 125 124
// expect 1: i32 123 122 121 120 119 118 117 116 115 114 113 112 111 110 109 108 107 106 105 104 103 102 101 100 99
// expect 1: i32 98 97

extern "C" __global__ void pipeline(const int* in, int* out) {
    __shared__ int slot[32];
    int lane = threadIdx.x % 32;
    for (int i = 0; i < 4; i++) {
        if (threadIdx.x < 32) {
            slot[lane] = in[i * 32 + lane];
            asm volatile("bar.sync 1, 64;" ::: "memory");  // full
            asm volatile("bar.sync 2, 64;" ::: "memory");  // empty
        } else {
            asm volatile("bar.sync 1, 64;" ::: "memory");
            out[i * 32 + lane] = slot[31 - lane] + 1;
            asm volatile("bar.sync 2, 64;" ::: "memory");
        }
    }
}
