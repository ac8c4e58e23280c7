// A tile whose chunks are swizzled; each thread reads its own chunk back.
//
// launch: grid=1 block=64
// args: i32[256]=iota i32[256]=uninit
// bug: none
// expect 1: i32 0 2 4 6 8 10 12 14 16 18 20 22 24 26 28 30 32 34 36 38 40 42 44 46 48 50 52 54 56 58 60 62 64 66 68
// expect 1: i32 70 72 74 76 78 80 82 84 86 88 90 92 94 96 98 100 102 104 106 108 110 112 114 116 118 120 122 124 126
// expect 1: i32 128 130 132 134 136 138 140 142 144 146 148 150 152 154 156 158 160 162 164 166 168 170 172 174 176
// expect 1: i32 178 180 182 184 186 188 190 192 194 196 198 200 202 204 206 208 210 212 214 216 218 220 222 224 226
// expect 1: i32 228 230 232 234 236 238 240 242 244 246 248 250 252 254 256 258 260 262 264 266 268 270 272 274 276
// expect 1: i32 278 280 282 284 286 288 290 292 294 296 298 300 302 304 306 308 310 312 314 316 318 320 322 324 326
// expect 1: i32 328 330 332 334 336 338 340 342 344 346 348 350 352 354 356 358 360 362 364 366 368 370 372 374 376
// expect 1: i32 378 380 382 384 386 388 390 392 394 396 398 400 402 404 406 408 410 412 414 416 418 420 422 424 426
// expect 1: i32 428 430 432 434 436 438 440 442 444 446 448 450 452 454 456 458 460 462 464 466 468 470 472 474 476
// expect 1: i32 478 480 482 484 486 488 490 492 494 496 498 500 502 504 506 508 510

extern "C" __global__ void own_chunks(const int* in, int* out) {
    __shared__ __align__(16) int tile[8][32];
    int row = threadIdx.x / 8, chunk = threadIdx.x % 8;
    // Chunks of 16 bytes lie in another order in each row, so that a column of
    // them has no bank conflicts.
    int at = 4 * (chunk ^ row);
    for (int i = 0; i < 4; i++) tile[row][at + i] = in[4 * threadIdx.x + i];
    // Each thread goes on with what it has stored, so no barrier is needed.
    for (int i = 0; i < 4; i++) out[4 * threadIdx.x + i] = 2 * tile[row][at + i];
}
