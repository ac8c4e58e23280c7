// Red elements are updated from black ones, side by side in one word, over the borders of blocks.
//
// launch: grid=2 block=32
// args: u16[128]=iota
// bug: none
// expect 0: u16 128 1 6 3 12 5 18 7 24 9 30 11 36 13 42 15 48 17 54 19 60 21 66 23 72 25 78 27 84 29 90 31 96 33 102
// expect 0: u16 35 108 37 114 39 120 41 126 43 132 45 138 47 144 49 150 51 156 53 162 55 168 57 174 59 180 61 186 63
// expect 0: u16 192 65 198 67 204 69 210 71 216 73 222 75 228 77 234 79 240 81 246 83 252 85 258 87 264 89 270 91
// expect 0: u16 276 93 282 95 288 97 294 99 300 101 306 103 312 105 318 107 324 109 330 111 336 113 342 115 348 117
// expect 0: u16 354 119 360 121 366 123 372 125 378 127

extern "C" __global__ void red_black(unsigned short* x) {
    int i = 2 * (blockIdx.x * 32 + threadIdx.x);
    x[i] += x[(i + 127) % 128] + x[i + 1];
}
