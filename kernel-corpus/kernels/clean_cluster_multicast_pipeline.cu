// Pipeline of tiles for two blocks: each loads half of a tile for both, when all warps of both
// have freed it.
//
// arch: compute_90a
// launch: grid=4 block=96
// args: i32[1536]=iota i32[384]=iota i32[256]=zeros
// bug: none
// expect 2: i32 285760 286132 286492 286840 287176 287500 287812 288112 288400 288676 288940 289192 289432 289660
// expect 2: i32 289876 290080 290272 290452 290620 290776 290920 291052 291172 291280 291376 291460 291532 291592
// expect 2: i32 291640 291676 291700 291712 291712 291700 291676 291640 291592 291532 291460 291376 291280 291172
// expect 2: i32 291052 290920 290776 290620 290452 290272 290080 289876 289660 289432 289192 288940 288676 288400
// expect 2: i32 288112 287812 287500 287176 286840 286492 286132 285760 799552 797620 795676 793720 791752 789772
// expect 2: i32 787780 785776 783760 781732 779692 777640 775576 773500 771412 769312 767200 765076 762940 760792
// expect 2: i32 758632 756460 754276 752080 749872 747652 745420 743176 740920 738652 736372 734080 731776 729460
// expect 2: i32 727132 724792 722440 720076 717700 715312 712912 710500 708076 705640 703192 700732 698260 695776
// expect 2: i32 693280 690772 688252 685720 683176 680620 678052 675472 672880 670276 667660 665032 662392 659740
// expect 2: i32 657076 654400 1313344 1309108 1304860 1300600 1296328 1292044 1287748 1283440 1279120 1274788
// expect 2: i32 1270444 1266088 1261720 1257340 1252948 1248544 1244128 1239700 1235260 1230808 1226344 1221868
// expect 2: i32 1217380 1212880 1208368 1203844 1199308 1194760 1190200 1185628 1181044 1176448 1171840 1167220
// expect 2: i32 1162588 1157944 1153288 1148620 1143940 1139248 1134544 1129828 1125100 1120360 1115608 1110844
// expect 2: i32 1106068 1101280 1096480 1091668 1086844 1082008 1077160 1072300 1067428 1062544 1057648 1052740
// expect 2: i32 1047820 1042888 1037944 1032988 1028020 1023040 1827136 1820596 1814044 1807480 1800904 1794316
// expect 2: i32 1787716 1781104 1774480 1767844 1761196 1754536 1747864 1741180 1734484 1727776 1721056 1714324
// expect 2: i32 1707580 1700824 1694056 1687276 1680484 1673680 1666864 1660036 1653196 1646344 1639480 1632604
// expect 2: i32 1625716 1618816 1611904 1604980 1598044 1591096 1584136 1577164 1570180 1563184 1556176 1549156
// expect 2: i32 1542124 1535080 1528024 1520956 1513876 1506784 1499680 1492564 1485436 1478296 1471144 1463980
// expect 2: i32 1456804 1449616 1442416 1435204 1427980 1420744 1413496 1406236 1398964 1391680

#include "cluster.cuh"

// Copies contiguous bytes to the same place in each block of the mask.
__device__ __forceinline__ void load_for_all(void* to, const void* from, unsigned bytes, Barrier* barrier, int mask) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], %4;"
        ::"r"(shared_address(to)), "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(shared_address(barrier)),
        "h"(static_cast<unsigned short>(mask)) : "memory");
}

extern "C" __global__ __cluster_dims__(2, 1, 1) void products(const int* a, const int* b, int* out) {
    __shared__ alignas(16) int tile[2][64];
    __shared__ Barrier full[2], empty[2];
    int t = threadIdx.x, rank = cluster_rank();
    if (t == 0) {
        for (int s = 0; s < 2; s++) {
            mbarrier_init(&full[s], 1);
            mbarrier_init(&empty[s], 4);  // two warps in each of two blocks
        }
        fence_mbarrier_init();
    }
    cluster_sync();
    if (t == 64) {  // the producer loads half of each tile, for both blocks
        for (int k = 0; k < 6; k++) {
            int s = k % 2;
            mbarrier_wait_cluster(&empty[s], k / 2 % 2 ^ 1);
            mbarrier_arrive_expect_tx(&full[s], sizeof(tile[s]));
            load_for_all(tile[s] + 32 * rank, b + 64 * k + 32 * rank, sizeof(tile[s]) / 2, &full[s], 3);
        }
    } else if (t < 64) {
        int sum = 0;
        for (int k = 0; k < 6; k++) {
            int s = k % 2;
            mbarrier_wait_cluster(&full[s], k / 2 % 2);
            sum += a[64 * (6 * blockIdx.x + k) + t] * tile[s][63 - t];
            __syncwarp();
            if (t % 32 < 2) mbarrier_arrive_on(&empty[s], t % 32);
        }
        out[64 * blockIdx.x + t] = sum;
    }
    __syncwarp();
    cluster_sync();
}
