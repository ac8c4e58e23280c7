// Lanes of a warp exchange through global memory, across __syncwarp: in rounds, with one
// before and one after the load.
//
// launch: grid=2 block=64
// args: i32[128]=iota i32[128]=uninit i32[128]=uninit
// bug: none
// expect 2: i32 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38
// expect 2: i32 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63 64 65 66 67 68 69 70 71
// expect 2: i32 72 73 74 75 76 77 78 79 80 81 82 83 84 85 86 87 88 89 90 91 92 93 94 95 96 97 98 99 100 101 102 103
// expect 2: i32 104 105 106 107 108 109 110 111 112 113 114 115 116 117 118 119 120 121 122 123 124 125 126 127 128
// expect 2: i32 129 130

extern "C" __global__ void reverse_twice(const int* in, int* between, int* out) {
    int t = threadIdx.x, base = blockIdx.x * 64 + t / 32 * 32, lane = t % 32, x = in[base + lane];
    for (int round = 0; round < 2; round++) {
        between[base + lane] = x + round;
        __syncwarp();  // all lanes have stored
        x = between[base + 31 - lane] + 1;
        __syncwarp();  // all lanes have loaded what the next round overwrites
    }
    out[base + lane] = x;
}
