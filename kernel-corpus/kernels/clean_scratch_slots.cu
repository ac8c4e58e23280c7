// More blocks than scratch slots: a block takes a free one by compare-and-swap, uses it, and
// gives it back, with fences.
//
// launch: grid=6 block=32
// args: i32[192]=iota i32[192]=uninit i32[2]=zeros i32[64]=uninit
// bug: none
// expect 1: i32 93 90 87 84 81 78 75 72 69 66 63 60 57 54 51 48 45 42 39 36 33 30 27 24 21 18 15 12 9 6 3 0 189 186
// expect 1: i32 183 180 177 174 171 168 165 162 159 156 153 150 147 144 141 138 135 132 129 126 123 120 117 114 111
// expect 1: i32 108 105 102 99 96 285 282 279 276 273 270 267 264 261 258 255 252 249 246 243 240 237 234 231 228
// expect 1: i32 225 222 219 216 213 210 207 204 201 198 195 192 381 378 375 372 369 366 363 360 357 354 351 348 345
// expect 1: i32 342 339 336 333 330 327 324 321 318 315 312 309 306 303 300 297 294 291 288 477 474 471 468 465 462
// expect 1: i32 459 456 453 450 447 444 441 438 435 432 429 426 423 420 417 414 411 408 405 402 399 396 393 390 387
// expect 1: i32 384 573 570 567 564 561 558 555 552 549 546 543 540 537 534 531 528 525 522 519 516 513 510 507 504
// expect 1: i32 501 498 495 492 489 486 483 480

extern "C" __global__ void work(const int* in, int* out, int* taken, int* scratch) {
    __shared__ int mine;
    int t = threadIdx.x, i = blockIdx.x * 32 + t;
    if (t == 0) {
        int slot = 0;
        while (atomicCAS(&taken[slot], 0, 1) != 0) slot ^= 1;
        __threadfence();
        mine = slot;
    }
    __syncthreads();
    scratch[32 * mine + t] = in[i] * 3;
    __syncthreads();
    out[i] = scratch[32 * mine + 31 - t];
    __syncthreads();
    if (t == 0) {
        __threadfence();
        atomicExch(&taken[mine], 0);
    }
}
