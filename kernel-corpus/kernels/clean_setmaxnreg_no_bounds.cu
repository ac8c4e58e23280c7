// With no bound of its threads or registers, `setmaxnreg` has no effect.
//
// arch: compute_90a
// launch: grid=1 block=384
// args: i32[256]=iota i32[256]=zeros
// bug: none
// expect 1: i32 255 254 253 252 251 250 249 248 247 246 245 244 243 242 241 240 239 238 237 236 235 234 233 232 231
// expect 1: i32 230 229 228 227 226 225 224 223 222 221 220 219 218 217 216 215 214 213 212 211 210 209 208 207 206
// expect 1: i32 205 204 203 202 201 200 199 198 197 196 195 194 193 192 191 190 189 188 187 186 185 184 183 182 181
// expect 1: i32 180 179 178 177 176 175 174 173 172 171 170 169 168 167 166 165 164 163 162 161 160 159 158 157 156
// expect 1: i32 155 154 153 152 151 150 149 148 147 146 145 144 143 142 141 140 139 138 137 136 135 134 133 132 131
// expect 1: i32 130 129 128 127 126 125 124 123 122 121 120 119 118 117 116 115 114 113 112 111 110 109 108 107 106
// expect 1: i32 105 104 103 102 101 100 99 98 97 96 95 94 93 92 91 90 89 88 87 86 85 84 83 82 81 80 79 78 77 76 75
// expect 1: i32 74 73 72 71 70 69 68 67 66 65 64 63 62 61 60 59 58 57 56 55 54 53 52 51 50 49 48 47 46 45 44 43 42
// expect 1: i32 41 40 39 38 37 36 35 34 33 32 31 30 29 28 27 26 25 24 23 22 21 20 19 18 17 16 15 14 13 12 11 10 9 8
// expect 1: i32 7 6 5 4 3 2 1 0

#include "hopper.cuh"

extern "C" __global__ void reverse(const int* in, int* out) {
    __shared__ alignas(16) int tile[256];
    __shared__ Barrier full;
    int t = threadIdx.x;
    if (t == 0) {
        mbarrier_init(&full, 1);
        fence_mbarrier_init();
    }
    __syncthreads();
    if (t >= 256) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 24;" ::: "memory");
        if (t == 256) {
            mbarrier_arrive_expect_tx(&full, sizeof(tile));
            bulk_load(tile, in, sizeof(tile), &full);
        }
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 248;" ::: "memory");
        mbarrier_wait(&full, 0);
        out[t] = tile[255 - t];
    }
}
