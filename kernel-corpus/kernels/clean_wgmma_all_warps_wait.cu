// Each warp of the warpgroup waits for the tiles that they multiply.
//
// arch: compute_90a
// launch: grid=1 block=128
// args: f16[1024]=iota f16[128]=iota i32[128]=zeros
// bug: none
// expect 2: i32 968058 1288314 1608570 1928826 1019642 1360378 1701114 2041850 1071226 1432442 1793658 2154874
// expect 2: i32 1122810 1504506 1886202 2267898 1174394 1576570 1978746 2380922 1225978 1648634 2071290 2493946
// expect 2: i32 1277562 1720698 2163834 2606970 1329146 1792762 2256378 2719994 2618746 3594362 4569978 5545594
// expect 2: i32 2670330 3666426 4662522 5658618 2721914 3738490 4755066 5771642 2773498 3810554 4847610 5884666
// expect 2: i32 2825082 3882618 4940154 5997690 2876666 3954682 5032698 6110714 2928250 4026746 5125242 6223738
// expect 2: i32 2979834 4098810 5217786 6336762 4269434 5900410 7531386 9162362 4321018 5972474 7623930 9275386
// expect 2: i32 4372602 6044538 7716474 9388410 4424186 6116602 7809018 9501434 4475770 6188666 7901562 9614458
// expect 2: i32 4527354 6260730 7994106 9727482 4578938 6332794 8086650 9840506 4630522 6404858 8179194 9953530
// expect 2: i32 5920122 8206458 10492794 12779130 5971706 8278522 10585338 12892154 6023290 8350586 10677882
// expect 2: i32 13005178 6074874 8422650 10770426 13118202 6126458 8494714 10862970 13231226 6178042 8566778
// expect 2: i32 10955514 13344250 6229626 8638842 11048058 13457274 6281210 8710906 11140602 13570298

#include "wgmma.cuh"

// d += a b, 64 by 8, of 16 products for each sum.
__device__ __forceinline__ void multiply(float (&d)[4], unsigned long long a, unsigned long long b) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(a), "l"(b) : "memory");
}

extern "C" __global__ void product(const f16* a, const f16* b, int* out) {
    __shared__ alignas(128) f16 a_tile[1024], b_tile[128];
    __shared__ Barrier full;
    int t = threadIdx.x;
    if (t == 0) {
        mbarrier_init(&full, 1);
        fence_mbarrier_init();
    }
    __syncthreads();
    if (t == 0) {
        mbarrier_arrive_expect_tx(&full, sizeof(a_tile) + sizeof(b_tile));
        bulk_load(a_tile, a, sizeof(a_tile), &full);
        bulk_load(b_tile, b, sizeof(b_tile), &full);
    }
    mbarrier_wait(&full, 0);
    float sums[4] = {1.0f, 1.0f, 1.0f, 1.0f};
    pin(sums);
    wgmma_fence();
    multiply(sums, plain_tile(a_tile), plain_tile(b_tile));
    wgmma_commit_group();
    wgmma_wait_group<0>();
    pin(sums);
    out[t] = int(sums[0]) + 2 * int(sums[1]) + 3 * int(sums[2]) + 4 * int(sums[3]);
}
