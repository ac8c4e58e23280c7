// One warp fills a tile, another one reads it, four times; a barrier in shared memory for each way.
//
// arch: compute_80
// launch: grid=2 block=64
// args: i32[256]=iota i32[256]=uninit
// bug: none
// expect 1: i32 31 30 29 28 27 26 25 24 23 22 21 20 19 18 17 16 15 14 13 12 11 10 9 8 7 6 5 4 3 2 1 0 63 62 61 60 59
// expect 1: i32 58 57 56 55 54 53 52 51 50 49 48 47 46 45 44 43 42 41 40 39 38 37 36 35 34 33 32 95 94 93 92 91 90
// expect 1: i32 89 88 87 86 85 84 83 82 81 80 79 78 77 76 75 74 73 72 71 70 69 68 67 66 65 64 127 126 125 124 123
// expect 1: i32 122 121 120 119 118 117 116 115 114 113 112 111 110 109 108 107 106 105 104 103 102 101 100 99 98 97
// expect 1: i32 96 159 158 157 156 155 154 153 152 151 150 149 148 147 146 145 144 143 142 141 140 139 138 137 136
// expect 1: i32 135 134 133 132 131 130 129 128 191 190 189 188 187 186 185 184 183 182 181 180 179 178 177 176 175
// expect 1: i32 174 173 172 171 170 169 168 167 166 165 164 163 162 161 160 223 222 221 220 219 218 217 216 215 214
// expect 1: i32 213 212 211 210 209 208 207 206 205 204 203 202 201 200 199 198 197 196 195 194 193 192 255 254 253
// expect 1: i32 252 251 250 249 248 247 246 245 244 243 242 241 240 239 238 237 236 235 234 233 232 231 230 229 228
// expect 1: i32 227 226 225 224

// The barrier of `count` arrivals in each phase, an arrival, and the wait for
// the phase of this parity.
__device__ void init(unsigned barrier, unsigned count) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}
__device__ void arrive(unsigned barrier) {
    asm volatile("{ .reg .b64 state; mbarrier.arrive.shared.b64 state, [%0]; }" ::"r"(barrier) : "memory");
}
__device__ void wait(unsigned barrier, unsigned parity) {
    unsigned over;
    do {
        asm volatile(
            "{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
            : "=r"(over) : "r"(barrier), "r"(parity) : "memory");
    } while (!over);
}

extern "C" __global__ void through_tile(const int* in, int* out) {
    __shared__ int tile[32];
    __shared__ unsigned long long barriers[2];
    unsigned full = static_cast<unsigned>(__cvta_generic_to_shared(&barriers[0])), empty = full + 8;
    int lane = threadIdx.x % 32, first = blockIdx.x * 128;
    if (threadIdx.x == 0) {
        init(full, 32);
        init(empty, 32);
    }
    __syncthreads();
    for (int round = 0; round < 4; round++) {
        if (threadIdx.x < 32) {
            wait(empty, round % 2 ^ 1);  // the phase before the first one counts as over
            tile[lane] = in[first + 32 * round + lane];
            arrive(full);
        } else {
            wait(full, round % 2);
            out[first + 32 * round + lane] = tile[31 - lane];
            arrive(empty);
        }
    }
}
