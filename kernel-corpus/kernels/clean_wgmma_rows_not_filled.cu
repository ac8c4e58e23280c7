// Tiles of A and B of which some rows and columns are not filled. Their sums are not used.
//
// arch: compute_90a
// launch: grid=1 block=128
// args: f16[640]=iota f16[80]=iota f32[200]=uninit
// bug: none
// expect 2: f32 1240 3160 5080 7000 8920 3160 9176 15192 21208 27224 5080 15192 25304 35416 45528 7000 21208 35416
// expect 2: f32 49624 63832 8920 27224 45528 63832 82136 10840 33240 55640 78040 100440 12760 39256 65752 92248
// expect 2: f32 118744 14680 45272 75864 106456 137048 16600 51288 85976 120664 155352 18520 57304 96088 134872
// expect 2: f32 173656 20440 63320 106200 149080 191960 22360 69336 116312 163288 210264 24280 75352 126424 177496
// expect 2: f32 228568 26200 81368 136536 191704 246872 28120 87384 146648 205912 265176 30040 93400 156760 220120
// expect 2: f32 283480 31960 99416 166872 234328 301784 33880 105432 176984 248536 320088 35800 111448 187096 262744
// expect 2: f32 338392 37720 117464 197208 276952 356696 39640 123480 207320 291160 375000 41560 129496 217432
// expect 2: f32 305368 393304 43480 135512 227544 319576 411608 45400 141528 237656 333784 429912 47320 147544
// expect 2: f32 247768 347992 448216 49240 153560 257880 362200 466520 51160 159576 267992 376408 484824 53080
// expect 2: f32 165592 278104 390616 503128 55000 171608 288216 404824 521432 56920 177624 298328 419032 539736
// expect 2: f32 58840 183640 308440 433240 558040 60760 189656 318552 447448 576344 62680 195672 328664 461656
// expect 2: f32 594648 64600 201688 338776 475864 612952 66520 207704 348888 490072 631256 68440 213720 359000
// expect 2: f32 504280 649560 70360 219736 369112 518488 667864 72280 225752 379224 532696 686168 74200 231768
// expect 2: f32 389336 546904 704472 76120 237784 399448 561112 722776

#include "wgmma.cuh"

// d += a b, 64 by 8, of 16 products for each sum.
__device__ __forceinline__ void multiply(float (&d)[4], unsigned long long a, unsigned long long b) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(a), "l"(b) : "memory");
}

// The place of an element in a tile with no swizzle and 16 values of k.
__device__ int place(int row, int k) { return row / 8 * 128 + k / 8 * 64 + row % 8 * 8 + k % 8; }

// a: 40 rows; b: 5 columns.
extern "C" __global__ void product(const f16* a, const f16* b, float* out) {
    __shared__ alignas(128) f16 a_tile[1024], b_tile[128];
    int t = threadIdx.x;
    for (int i = t; i < 40 * 16; i += 128) a_tile[place(i / 16, i % 16)] = a[i];
    if (t < 5 * 16) b_tile[place(t / 16, t % 16)] = b[t];
    fence_proxy_async();
    __syncthreads();
    float sums[4] = {};
    pin(sums);
    wgmma_fence();
    multiply(sums, plain_tile(a_tile), plain_tile(b_tile));
    wgmma_commit_group();
    wgmma_wait_group<0>();
    pin(sums);
    for (int i = 0; i < 4; i++) {
        if (row(i) < 40 && column(i) < 5) out[5 * row(i) + column(i)] = sums[i];
    }
}
