// The tiles of the next product are copied when all warps have waited for the one before.
//
// arch: compute_90a
// launch: grid=1 block=128
// args: f16[2048]=iota f16[256]=iota i32[128]=zeros
// bug: none
// expect 2: i32 32072416 35334368 38596320 41858272 32339424 35642336 38945248 42248160 32606432 35950304 39294176
// expect 2: i32 42638048 32873440 36258272 39643104 43027936 33140448 36566240 39992032 43417824 33407456 36874208
// expect 2: i32 40340960 43807712 33674464 37182176 40689888 44197600 33941472 37490144 41038816 44587488 40616672
// expect 2: i32 45189344 49762016 54334688 40883680 45497312 50110944 54724576 41150688 45805280 50459872 55114464
// expect 2: i32 41417696 46113248 50808800 55504352 41684704 46421216 51157728 55894240 41951712 46729184 51506656
// expect 2: i32 56284128 42218720 47037152 51855584 56674016 42485728 47345120 52204512 57063904 49160928 55044320
// expect 2: i32 60927712 66811104 49427936 55352288 61276640 67200992 49694944 55660256 61625568 67590880 49961952
// expect 2: i32 55968224 61974496 67980768 50228960 56276192 62323424 68370656 50495968 56584160 62672352 68760544
// expect 2: i32 50762976 56892128 63021280 69150432 51029984 57200096 63370208 69540320 57705184 64899296 72093408
// expect 2: i32 79287520 57972192 65207264 72442336 79677408 58239200 65515232 72791264 80067296 58506208 65823200
// expect 2: i32 73140192 80457184 58773216 66131168 73489120 80847072 59040224 66439136 73838048 81236960 59307232
// expect 2: i32 66747104 74186976 81626848 59574240 67055072 74535904 82016736

#include "wgmma.cuh"

// Copies contiguous bytes.
__device__ __forceinline__ void load_tile(void* to, const void* from, unsigned bytes, Barrier* barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 ::"r"(shared_address(to)), "l"(__cvta_generic_to_global(from)), "r"(bytes),
                 "r"(shared_address(barrier)) : "memory");
}

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
    float sums[4] = {};
    for (int k = 0; k < 2; k++) {
        if (t == 0) {
            mbarrier_arrive_expect_tx(&full, sizeof(a_tile) + sizeof(b_tile));
            load_tile(a_tile, a + 1024 * k, sizeof(a_tile), &full);
            load_tile(b_tile, b + 128 * k, sizeof(b_tile), &full);
        }
        __syncwarp();
        mbarrier_wait(&full, k);
        pin(sums);
        wgmma_fence();
        multiply(sums, plain_tile(a_tile), plain_tile(b_tile));
        wgmma_commit_group();
        wgmma_wait_group<0>();
        pin(sums);
        __syncthreads();  // so that the next copies do not overwrite what the product of a warp still reads
    }
    out[t] = int(sums[0]) + 2 * int(sums[1]) + 3 * int(sums[2]) + 4 * int(sums[3]);
}
