// A lies in registers, which ordinary code changes between two products.
//
// arch: compute_90a
// launch: grid=1 block=128
// args: f16[1024]=iota f16[128]=iota i32[128]=zeros
// bug: none
// expect 2: i32 1932432 2678160 3423888 4169616 2241936 3110544 3979152 4847760 2551440 3542928 4534416 5525904
// expect 2: i32 2860944 3975312 5089680 6204048 3170448 4407696 5644944 6882192 3479952 4840080 6200208 7560336
// expect 2: i32 3789456 5272464 6755472 8238480 4098960 5704848 7310736 8916624 6884496 9596304 12308112 15019920
// expect 2: i32 7194000 10028688 12863376 15698064 7503504 10461072 13418640 16376208 7813008 10893456 13973904
// expect 2: i32 17054352 8122512 11325840 14529168 17732496 8432016 11758224 15084432 18410640 8741520 12190608
// expect 2: i32 15639696 19088784 9051024 12622992 16194960 19766928 11836560 16514448 21192336 25870224 12146064
// expect 2: i32 16946832 21747600 26548368 12455568 17379216 22302864 27226512 12765072 17811600 22858128 27904656
// expect 2: i32 13074576 18243984 23413392 28582800 13384080 18676368 23968656 29260944 13693584 19108752 24523920
// expect 2: i32 29939088 14003088 19541136 25079184 30617232 16788624 23432592 30076560 36720528 17098128 23864976
// expect 2: i32 30631824 37398672 17407632 24297360 31187088 38076816 17717136 24729744 31742352 38754960 18026640
// expect 2: i32 25162128 32297616 39433104 18336144 25594512 32852880 40111248 18645648 26026896 33408144 40789392
// expect 2: i32 18955152 26459280 33963408 41467536

#include "wgmma.cuh"

// d += a b, 64 by 8, of 16 products for each sum; A lies in registers.
__device__ __forceinline__ void multiply(float (&d)[4], unsigned (&a)[4], unsigned long long b) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, {%4, %5, %6, %7}, %8, 1, 1, 1, 0;"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b) : "memory");
}

extern "C" __global__ void product(const unsigned* a, const f16* b, int* out) {
    __shared__ alignas(128) f16 b_tile[128];
    int t = threadIdx.x;
    b_tile[t] = b[t];
    fence_proxy_async();
    __syncthreads();
    unsigned parts[4];  // pairs of elements: rows and columns as of the results
    for (int i = 0; i < 4; i++) parts[i] = a[8 * row(2 * i) + column(4 * (i / 2)) / 2];
    float sums[4] = {};
    pin(parts);
    pin(sums);
    wgmma_fence();
    multiply(sums, parts, plain_tile(b_tile));
    wgmma_commit_group();
    wgmma_wait_group<0>();
    for (unsigned& x : parts) asm volatile("add.rn.f16x2 %0, %0, %0;" : "+r"(x)::"memory");
    wgmma_fence();  // so that the product finds the new elements
    multiply(sums, parts, plain_tile(b_tile));
    wgmma_commit_group();
    wgmma_wait_group<0>();
    pin(sums);
    out[t] = int(sums[0]) + 2 * int(sums[1]) + 3 * int(sums[2]) + 4 * int(sums[3]);
}
