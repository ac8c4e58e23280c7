// The same with two slots and bar.arrive: who only reports does not wait.
//
// launch: grid=1 block=64
// args: i32[256]=iota i32[256]=uninit
// bug: none
// expect 1: i32 62 60 58 56 54 52 50 48 46 44 42 40 38 36 34 32 30 28 26 24 22 20 18 16 14 12 10 8 6 4 2 0 126 124
// expect 1: i32 122 120 118 116 114 112 110 108 106 104 102 100 98 96 94 92 90 88 86 84 82 80 78 76 74 72 70 68 66
// expect 1: i32 64 190 188 186 184 182 180 178 176 174 172 170 168 166 164 162 160 158 156 154 152 150 148 146 144
// expect 1: i32 142 140 138 136 134 132 130 128 254 252 250 248 246 244 242 240 238 236 234 232 230 228 226 224 222
// expect 1: i32 220 218 216 214 212 210 208 206 204 202 200 198 196 194 192 318 316 314 312 310 308 306 304 302 300
// expect 1: i32 298 296 294 292 290 288 286 284 282 280 278 276 274 272 270 268 266 264 262 260 258 256 382 380 378
// expect 1: i32 376 374 372 370 368 366 364 362 360 358 356 354 352 350 348 346 344 342 340 338 336 334 332 330 328
// expect 1: i32 326 324 322 320 446 444 442 440 438 436 434 432 430 428 426 424 422 420 418 416 414 412 410 408 406
// expect 1: i32 404 402 400 398 396 394 392 390 388 386 384 510 508 506 504 502 500 498 496 494 492 490 488 486 484
// expect 1: i32 482 480 478 476 474 472 470 468 466 464 462 460 458 456 454 452 450 448

__device__ void sync(int barrier) { asm volatile("bar.sync %0, 64;" :: "r"(barrier) : "memory"); }
__device__ void arrive(int barrier) { asm volatile("bar.arrive %0, 64;" :: "r"(barrier) : "memory"); }

// Barriers 1 and 2 say that slot 0 or 1 is full, 3 and 4 that it is empty.
extern "C" __global__ void pipeline(const int* in, int* out) {
    __shared__ int slots[2][32];
    int lane = threadIdx.x % 32;
    if (threadIdx.x < 32) {
        for (int i = 0; i < 8; i++) {
            if (i >= 2) sync(3 + i % 2);
            slots[i % 2][lane] = in[i * 32 + lane];
            arrive(1 + i % 2);
        }
    } else {
        for (int i = 0; i < 8; i++) {
            sync(1 + i % 2);
            out[i * 32 + lane] = 2 * slots[i % 2][31 - lane];
            if (i < 6) arrive(3 + i % 2);
        }
    }
}
