// All blocks of a cluster add their part to that of the first one, in any order.
//
// arch: compute_90a
// launch: grid=8 block=64
// args: i32[512]=iota i32[128]=zeros
// bug: none
// expect 1: i32 736 732 728 724 720 716 712 708 704 700 696 692 688 684 680 676 672 668 664 660 656 652 648 644 640
// expect 1: i32 636 632 628 624 620 616 612 608 604 600 596 592 588 584 580 576 572 568 564 560 556 552 548 544 540
// expect 1: i32 536 532 528 524 520 516 512 508 504 500 496 492 488 484 1760 1756 1752 1748 1744 1740 1736 1732 1728
// expect 1: i32 1724 1720 1716 1712 1708 1704 1700 1696 1692 1688 1684 1680 1676 1672 1668 1664 1660 1656 1652 1648
// expect 1: i32 1644 1640 1636 1632 1628 1624 1620 1616 1612 1608 1604 1600 1596 1592 1588 1584 1580 1576 1572 1568
// expect 1: i32 1564 1560 1556 1552 1548 1544 1540 1536 1532 1528 1524 1520 1516 1512 1508

#include "cluster.cuh"

extern "C" __global__ __cluster_dims__(4, 1, 1) void sum(const int* in, int* out) {
    __shared__ alignas(16) int part[64], total[64];
    __shared__ Barrier full;
    int t = threadIdx.x, rank = cluster_rank();
    part[t] = in[64 * blockIdx.x + t];
    total[t] = 100;
    asm volatile("fence.proxy.async;" ::: "memory");
    if (t == 0) {
        mbarrier_init(&full, 1);
        fence_mbarrier_init();
        if (rank == 0) mbarrier_arrive_expect_tx(&full, 4 * sizeof(part));
    }
    cluster_sync();
    if (t == 0) {
        asm volatile(
            "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.u32 [%0], [%1], %2, [%3];"
            ::"r"(shared_address_on(total, 0)), "r"(shared_address(part)), "n"(sizeof(part)),
            "r"(shared_address_on(&full, 0))
            : "memory");
    }
    if (rank == 0) {
        mbarrier_wait_cluster(&full, 0);
        out[16 * blockIdx.x + t] = total[63 - t];
    }
    cluster_sync();  // no block ends before its part has been read
}
