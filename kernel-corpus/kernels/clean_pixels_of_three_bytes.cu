// Each thread changes its own three bytes in shared memory, whose words it
// shares with its neighbours.
//
// launch: grid=1 block=64
// args: u8[192]=iota u8[192]=uninit
// bug: none
// expect 1: u8 2 1 0 5 4 3 8 7 6 11 10 9 14 13 12 17 16 15 20 19 18 23 22 21 26 25 24 29 28 27 32 31 30 35 34 33 38
// expect 1: u8 37 36 41 40 39 44 43 42 47 46 45 50 49 48 53 52 51 56 55 54 59 58 57 62 61 60 65 64 63 68 67 66 71
// expect 1: u8 70 69 74 73 72 77 76 75 80 79 78 83 82 81 86 85 84 89 88 87 92 91 90 95 94 93 98 97 96 101 100 99
// expect 1: u8 104 103 102 107 106 105 110 109 108 113 112 111 116 115 114 119 118 117 122 121 120 125 124 123 128
// expect 1: u8 127 126 131 130 129 134 133 132 137 136 135 140 139 138 143 142 141 146 145 144 149 148 147 152 151
// expect 1: u8 150 155 154 153 158 157 156 161 160 159 164 163 162 167 166 165 170 169 168 173 172 171 176 175 174
// expect 1: u8 179 178 177 182 181 180 185 184 183 188 187 186 191 190 189

extern "C" __global__ void swap_colours(const unsigned char* in, unsigned char* out) {
    __shared__ unsigned char pixels[192];
    int t = threadIdx.x;
    for (int c = 0; c < 3; c++) pixels[3 * t + c] = in[3 * t + c];
    unsigned char red = pixels[3 * t];
    pixels[3 * t] = pixels[3 * t + 2];
    pixels[3 * t + 2] = red;
    __syncthreads();
    for (int i = t; i < 192; i += 64) out[i] = pixels[i];
}
