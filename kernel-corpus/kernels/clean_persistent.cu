// A block works on one result after the other; the phases of three stages wrap around, and go on
// from result to result.
//
// arch: compute_90a
// launch: grid=1 block=96
// args: i32[1280]=iota i32[320]=zeros
// bug: none
// expect 1: i32 636 632 628 624 620 616 612 608 604 600 596 592 588 584 580 576 572 568 564 560 556 552 548 544 540
// expect 1: i32 536 532 528 524 520 516 512 508 504 500 496 492 488 484 480 476 472 468 464 460 456 452 448 444 440
// expect 1: i32 436 432 428 424 420 416 412 408 404 400 396 392 388 384 1660 1656 1652 1648 1644 1640 1636 1632 1628
// expect 1: i32 1624 1620 1616 1612 1608 1604 1600 1596 1592 1588 1584 1580 1576 1572 1568 1564 1560 1556 1552 1548
// expect 1: i32 1544 1540 1536 1532 1528 1524 1520 1516 1512 1508 1504 1500 1496 1492 1488 1484 1480 1476 1472 1468
// expect 1: i32 1464 1460 1456 1452 1448 1444 1440 1436 1432 1428 1424 1420 1416 1412 1408 2684 2680 2676 2672 2668
// expect 1: i32 2664 2660 2656 2652 2648 2644 2640 2636 2632 2628 2624 2620 2616 2612 2608 2604 2600 2596 2592 2588
// expect 1: i32 2584 2580 2576 2572 2568 2564 2560 2556 2552 2548 2544 2540 2536 2532 2528 2524 2520 2516 2512 2508
// expect 1: i32 2504 2500 2496 2492 2488 2484 2480 2476 2472 2468 2464 2460 2456 2452 2448 2444 2440 2436 2432 3708
// expect 1: i32 3704 3700 3696 3692 3688 3684 3680 3676 3672 3668 3664 3660 3656 3652 3648 3644 3640 3636 3632 3628
// expect 1: i32 3624 3620 3616 3612 3608 3604 3600 3596 3592 3588 3584 3580 3576 3572 3568 3564 3560 3556 3552 3548
// expect 1: i32 3544 3540 3536 3532 3528 3524 3520 3516 3512 3508 3504 3500 3496 3492 3488 3484 3480 3476 3472 3468
// expect 1: i32 3464 3460 3456 4732 4728 4724 4720 4716 4712 4708 4704 4700 4696 4692 4688 4684 4680 4676 4672 4668
// expect 1: i32 4664 4660 4656 4652 4648 4644 4640 4636 4632 4628 4624 4620 4616 4612 4608 4604 4600 4596 4592 4588
// expect 1: i32 4584 4580 4576 4572 4568 4564 4560 4556 4552 4548 4544 4540 4536 4532 4528 4524 4520 4516 4512 4508
// expect 1: i32 4504 4500 4496 4492 4488 4484 4480

#include "hopper.cuh"

// Waits until the phase of this parity is over.
__device__ __forceinline__ void wait_for_phase(Barrier* barrier, unsigned parity) {
    unsigned over;
    do {
        asm volatile(
            "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
            : "=r"(over) : "r"(shared_address(barrier)), "r"(parity) : "memory");
    } while (!over);
}

extern "C" __global__ void tile_sums(const int* in, int* out) {
    __shared__ alignas(16) int tile[3][64];
    __shared__ Barrier full[3], empty[3];
    int t = threadIdx.x;
    if (t == 0) {
        for (int stage = 0; stage < 3; stage++) {
            mbarrier_init(&full[stage], 1);
            mbarrier_init(&empty[stage], 64);
        }
        fence_mbarrier_init();
    }
    __syncthreads();
    // Stage and phase go on from one result to the next: 5 results of 4 tiles.
    int stage = 0, phase = 0;
    for (int result = 0; result < 5; result++) {
        int sum = 0;
        for (int step = 0; step < 4; step++) {
            if (t == 64) {
                wait_for_phase(&empty[stage], phase ^ 1);
                mbarrier_arrive_expect_tx(&full[stage], sizeof(tile[stage]));
                bulk_load(tile[stage], in + 64 * (4 * result + step), sizeof(tile[stage]), &full[stage]);
            }
            if (t < 64) {
                wait_for_phase(&full[stage], phase);
                sum += tile[stage][63 - t];
                mbarrier_arrive(&empty[stage]);
            }
            if (++stage == 3) {
                stage = 0;
                phase ^= 1;
            }
        }
        if (t < 64) out[64 * result + t] = sum;
    }
}
