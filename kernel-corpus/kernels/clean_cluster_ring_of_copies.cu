// Tiles go round a ring of blocks by bulk copies, each in two buffers.
//
// arch: compute_90a
// launch: grid=8 block=64
// args: i32[512]=iota i32[512]=zeros
// bug: none
// expect 1: i32 1654 1644 1634 1624 1614 1604 1594 1584 1574 1564 1554 1544 1534 1524 1514 1504 1494 1484 1474 1464
// expect 1: i32 1454 1444 1434 1424 1414 1404 1394 1384 1374 1364 1354 1344 1334 1324 1314 1304 1294 1284 1274 1264
// expect 1: i32 1254 1244 1234 1224 1214 1204 1194 1184 1174 1164 1154 1144 1134 1124 1114 1104 1094 1084 1074 1064
// expect 1: i32 1054 1044 1034 1024 1782 1772 1762 1752 1742 1732 1722 1712 1702 1692 1682 1672 1662 1652 1642 1632
// expect 1: i32 1622 1612 1602 1592 1582 1572 1562 1552 1542 1532 1522 1512 1502 1492 1482 1472 1462 1452 1442 1432
// expect 1: i32 1422 1412 1402 1392 1382 1372 1362 1352 1342 1332 1322 1312 1302 1292 1282 1272 1262 1252 1242 1232
// expect 1: i32 1222 1212 1202 1192 1182 1172 1162 1152 1654 1644 1634 1624 1614 1604 1594 1584 1574 1564 1554 1544
// expect 1: i32 1534 1524 1514 1504 1494 1484 1474 1464 1454 1444 1434 1424 1414 1404 1394 1384 1374 1364 1354 1344
// expect 1: i32 1334 1324 1314 1304 1294 1284 1274 1264 1254 1244 1234 1224 1214 1204 1194 1184 1174 1164 1154 1144
// expect 1: i32 1134 1124 1114 1104 1094 1084 1074 1064 1054 1044 1034 1024 1270 1260 1250 1240 1230 1220 1210 1200
// expect 1: i32 1190 1180 1170 1160 1150 1140 1130 1120 1110 1100 1090 1080 1070 1060 1050 1040 1030 1020 1010 1000
// expect 1: i32 990 980 970 960 950 940 930 920 910 900 890 880 870 860 850 840 830 820 810 800 790 780 770 760 750
// expect 1: i32 740 730 720 710 700 690 680 670 660 650 640 4214 4204 4194 4184 4174 4164 4154 4144 4134 4124 4114
// expect 1: i32 4104 4094 4084 4074 4064 4054 4044 4034 4024 4014 4004 3994 3984 3974 3964 3954 3944 3934 3924 3914
// expect 1: i32 3904 3894 3884 3874 3864 3854 3844 3834 3824 3814 3804 3794 3784 3774 3764 3754 3744 3734 3724 3714
// expect 1: i32 3704 3694 3684 3674 3664 3654 3644 3634 3624 3614 3604 3594 3584 4342 4332 4322 4312 4302 4292 4282
// expect 1: i32 4272 4262 4252 4242 4232 4222 4212 4202 4192 4182 4172 4162 4152 4142 4132 4122 4112 4102 4092 4082
// expect 1: i32 4072 4062 4052 4042 4032 4022 4012 4002 3992 3982 3972 3962 3952 3942 3932 3922 3912 3902 3892 3882
// expect 1: i32 3872 3862 3852 3842 3832 3822 3812 3802 3792 3782 3772 3762 3752 3742 3732 3722 3712 4214 4204 4194
// expect 1: i32 4184 4174 4164 4154 4144 4134 4124 4114 4104 4094 4084 4074 4064 4054 4044 4034 4024 4014 4004 3994
// expect 1: i32 3984 3974 3964 3954 3944 3934 3924 3914 3904 3894 3884 3874 3864 3854 3844 3834 3824 3814 3804 3794
// expect 1: i32 3784 3774 3764 3754 3744 3734 3724 3714 3704 3694 3684 3674 3664 3654 3644 3634 3624 3614 3604 3594
// expect 1: i32 3584 3830 3820 3810 3800 3790 3780 3770 3760 3750 3740 3730 3720 3710 3700 3690 3680 3670 3660 3650
// expect 1: i32 3640 3630 3620 3610 3600 3590 3580 3570 3560 3550 3540 3530 3520 3510 3500 3490 3480 3470 3460 3450
// expect 1: i32 3440 3430 3420 3410 3400 3390 3380 3370 3360 3350 3340 3330 3320 3310 3300 3290 3280 3270 3260 3250
// expect 1: i32 3240 3230 3220 3210 3200

#include "cluster.cuh"

// Copies contiguous bytes into the shared memory of the block of this rank.
__device__ __forceinline__ void send(void* to, const void* from, unsigned bytes, Barrier* barrier, unsigned rank) {
    asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 ::"r"(shared_address_on(to, rank)), "r"(shared_address(from)), "r"(bytes),
                 "r"(shared_address_on(barrier, rank)) : "memory");
}

extern "C" __global__ __cluster_dims__(4, 1, 1) void sums(const int* in, int* out) {
    __shared__ alignas(16) int tile[2][64];
    __shared__ Barrier full[2], received, free;
    int t = threadIdx.x, rank = cluster_rank(), next = (rank + 1) % 4, previous = (rank + 3) % 4, sum = 0;
    if (t == 0) {
        for (Barrier* barrier : {&full[0], &full[1], &received, &free}) mbarrier_init(barrier, 1);
        fence_mbarrier_init();
    }
    tile[0][t] = in[64 * blockIdx.x + t];
    fence_proxy_async();
    cluster_sync();
    for (int step = 0; step < 4; step++) {
        int now = step % 2, then = now ^ 1;
        if (step > 0) {
            mbarrier_wait_cluster(&full[now], (step - 1) / 2);
            if (t == 0) mbarrier_arrive_on(&received, previous);
        }
        sum += (step + 1) * tile[now][63 - t];
        if (step == 3) break;
        if (step > 0) mbarrier_wait_cluster(&received, (step - 1) % 2);  // the next block has the other tile
        __syncthreads();  // all threads have read it
        if (t == 0) {
            mbarrier_arrive_expect_tx(&full[then], sizeof(tile[then]));
            mbarrier_arrive_on(&free, previous);
            mbarrier_wait_cluster(&free, step % 2);
            send(tile[then], tile[now], sizeof(tile[now]), &full[then], next);
        }
    }
    out[64 * blockIdx.x + t] = sum;
    cluster_sync();
}
