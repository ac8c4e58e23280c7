// Each round copies the tile of the next one, and the last round none.
//
// arch: compute_90a
// launch: grid=2 block=64
// args: i32[256]=iota i32[128]=zeros
// bug: none
// expect 1: i32 636 632 628 624 620 616 612 608 604 600 596 592 588 584 580 576 572 568 564 560 556 552 548 544 540
// expect 1: i32 536 532 528 524 520 516 512 508 504 500 496 492 488 484 480 476 472 468 464 460 456 452 448 444 440
// expect 1: i32 436 432 428 424 420 416 412 408 404 400 396 392 388 384 636 632 628 624 620 616 612 608 604 600 596
// expect 1: i32 592 588 584 580 576 572 568 564 560 556 552 548 544 540 536 532 528 524 520 516 512 508 504 500 496
// expect 1: i32 492 488 484 480 476 472 468 464 460 456 452 448 444 440 436 432 428 424 420 416 412 408 404 400 396
// expect 1: i32 392 388 384

#include "hopper.cuh"

__device__ __forceinline__ void load(int* tile, const int* in, Barrier* full) {
    mbarrier_arrive_expect_tx(full, 256);
    bulk_load(tile, in, 256, full);
}

extern "C" __global__ void sum(const int* in, int* out) {
    __shared__ alignas(16) int tile[2][64];
    __shared__ Barrier full[2];
    int t = threadIdx.x, sum = 0;
    if (t == 0) {
        mbarrier_init(&full[0], 1);
        mbarrier_init(&full[1], 1);
        fence_mbarrier_init();
        load(tile[0], in, &full[0]);
    }
    __syncthreads();
    for (int i = 0; i < 4; i++) {
        int next = i + 1;
        if (t == 0 && next < 4) load(tile[next % 2], in + 64 * next, &full[next % 2]);
        mbarrier_wait(&full[i % 2], i / 2 % 2);
        sum += tile[i % 2][63 - t];
        __syncthreads();
    }
    out[64 * blockIdx.x + t] = sum;
}
