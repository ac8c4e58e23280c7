// A ragged transpose straight from global to global memory.
//
// launch: grid=2,1 block=16,8
// args: i32[140]=iota i32[140]=uninit i32=7 i32=20
// bug: none
// expect 1: i32 0 20 40 60 80 100 120 1 21 41 61 81 101 121 2 22 42 62 82 102 122 3 23 43 63 83 103 123 4 24 44 64
// expect 1: i32 84 104 124 5 25 45 65 85 105 125 6 26 46 66 86 106 126 7 27 47 67 87 107 127 8 28 48 68 88 108 128 9
// expect 1: i32 29 49 69 89 109 129 10 30 50 70 90 110 130 11 31 51 71 91 111 131 12 32 52 72 92 112 132 13 33 53 73
// expect 1: i32 93 113 133 14 34 54 74 94 114 134 15 35 55 75 95 115 135 16 36 56 76 96 116 136 17 37 57 77 97 117
// expect 1: i32 137 18 38 58 78 98 118 138 19 39 59 79 99 119 139

extern "C" __global__ void transpose(const int* in, int* out, int rows, int cols) {
    int col = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 8 + threadIdx.y;
    if (row < rows && col < cols) out[col * rows + row] = in[row * cols + col];
}
