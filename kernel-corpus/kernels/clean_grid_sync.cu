// Three rounds in which each element takes its neighbour's value; grid.sync() divides them.
//
// launch: grid=4 block=32 cooperative=yes
// args: i32[128]=iota i32[128]=uninit
// bug: none
// expect 0: i32 3 6 9 12 15 18 21 24 27 30 33 36 39 42 45 48 51 54 57 60 63 66 69 72 75 78 81 84 87 90 93 96 99 102
// expect 0: i32 105 108 111 114 117 120 123 126 129 132 135 138 141 144 147 150 153 156 159 162 165 168 171 174 177
// expect 0: i32 180 183 186 189 192 195 198 201 204 207 210 213 216 219 222 225 228 231 234 237 240 243 246 249 252
// expect 0: i32 255 258 261 264 267 270 273 276 279 282 285 288 291 294 297 300 303 306 309 312 315 318 321 324 327
// expect 0: i32 330 333 336 339 342 345 348 351 354 357 360 363 366 369 372 375 378 253 128
// expect 1: i32 6 10 14 18 22 26 30 34 38 42 46 50 54 58 62 66 70 74 78 82 86 90 94 98 102 106 110 114 118 122 126
// expect 1: i32 130 134 138 142 146 150 154 158 162 166 170 174 178 182 186 190 194 198 202 206 210 214 218 222 226
// expect 1: i32 230 234 238 242 246 250 254 258 262 266 270 274 278 282 286 290 294 298 302 306 310 314 318 322 326
// expect 1: i32 330 334 338 342 346 350 354 358 362 366 370 374 378 382 386 390 394 398 402 406 410 414 418 422 426
// expect 1: i32 430 434 438 442 446 450 454 458 462 466 470 474 478 482 486 490 494 498 502 378 254 130

// What grid.sync() of cooperative_groups.h compiles to.
__device__ void grid_sync() {
    unsigned high, low, before, now;
    asm("mov.u32 %0, %%envreg1;" : "=r"(high));
    asm("mov.u32 %0, %%envreg2;" : "=r"(low));
    unsigned long long workspace = (unsigned long long)high << 32 | low;
    if (workspace == 0) __trap();
    __syncthreads();
    if (threadIdx.x == 0) {
        // All parts together are 2^31: the top bit changes when the last block has come.
        unsigned part = blockIdx.x == 0 ? 0x80000000u - (gridDim.x - 1) : 1;
        asm volatile("atom.add.release.gpu.u32 %0, [%1], %2;" : "=r"(before) : "l"(workspace + 4), "r"(part) : "memory");
        do {
            asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(now) : "l"(workspace + 4) : "memory");
        } while (((now ^ before) >> 31) == 0);
    }
    __syncthreads();
}

extern "C" __global__ void rounds(int* even, int* odd) {
    int i = blockIdx.x * 32 + threadIdx.x;
    for (int round = 0; round < 3; round++) {
        const int* from = round % 2 == 0 ? even : odd;
        int* to = round % 2 == 0 ? odd : even;
        to[i] = from[(i + 1) % 128] + i;
        grid_sync();
    }
}
