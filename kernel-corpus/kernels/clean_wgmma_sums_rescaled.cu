// Ordinary code scales the sums between two products, as an online softmax does, and fences them.
//
// arch: compute_90a
// launch: grid=1 block=128
// args: f16[1024]=iota f16[256]=iota i32[128]=zeros
// bug: none
// expect 2: i32 5466222 6426990 7387758 8348526 5784814 6807022 7829230 8851438 6103406 7187054 8270702 9354350
// expect 2: i32 6421998 7567086 8712174 9857262 6740590 7947118 9153646 10360174 7059182 8327150 9595118 10863086
// expect 2: i32 7377774 8707182 10036590 11365998 7696366 9087214 10478062 11868910 15661166 18588014 21514862
// expect 2: i32 24441710 15979758 18968046 21956334 24944622 16298350 19348078 22397806 25447534 16616942 19728110
// expect 2: i32 22839278 25950446 16935534 20108142 23280750 26453358 17254126 20488174 23722222 26956270 17572718
// expect 2: i32 20868206 24163694 27459182 17891310 21248238 24605166 27962094 25856110 30749038 35641966 40534894
// expect 2: i32 26174702 31129070 36083438 41037806 26493294 31509102 36524910 41540718 26811886 31889134 36966382
// expect 2: i32 42043630 27130478 32269166 37407854 42546542 27449070 32649198 37849326 43049454 27767662 33029230
// expect 2: i32 38290798 43552366 28086254 33409262 38732270 44055278 36051054 42910062 49769070 56628078 36369646
// expect 2: i32 43290094 50210542 57130990 36688238 43670126 50652014 57633902 37006830 44050158 51093486 58136814
// expect 2: i32 37325422 44430190 51534958 58639726 37644014 44810222 51976430 59142638 37962606 45190254 52417902
// expect 2: i32 59645550 38281198 45570286 52859374 60148462

#include "wgmma.cuh"

// d += a b, 64 by 8, of 16 products for each sum.
__device__ __forceinline__ void multiply(float (&d)[4], unsigned long long a, unsigned long long b) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(a), "l"(b) : "memory");
}

extern "C" __global__ void product(const f16* a, const f16* b, int* out) {
    __shared__ alignas(128) f16 a_tile[1024], b_tile[2][128];
    int t = threadIdx.x;
    for (int i = t; i < 1024; i += 128) a_tile[i] = a[i];
    for (int i = t; i < 256; i += 128) b_tile[i / 128][i % 128] = b[i];
    fence_proxy_async();
    __syncthreads();
    float sums[4] = {};
    for (int k = 0; k < 2; k++) {
        for (float& x : sums) x = 2.0f * x + 1.0f;
        pin(sums);
        wgmma_fence();  // so that the product finds the new sums
        multiply(sums, plain_tile(a_tile), plain_tile(b_tile[k]));
        wgmma_commit_group();
        wgmma_wait_group<0>();
        pin(sums);
    }
    out[t] = int(sums[0]) + 2 * int(sums[1]) + 3 * int(sums[2]) + 4 * int(sums[3]);
}
