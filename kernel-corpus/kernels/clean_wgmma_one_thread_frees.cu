// One thread of the warpgroup frees the tiles of a product when it has waited for it.
//
// arch: compute_90a
// launch: grid=1 block=160
// args: f16[2048]=iota f16[256]=iota i32[128]=zeros
// bug: none
// expect 2: i32 43173312 49697216 56221120 62745024 43707328 50313152 56918976 63524800 44241344 50929088 57616832
// expect 2: i32 64304576 44775360 51545024 58314688 65084352 45309376 52160960 59012544 65864128 45843392 52776896
// expect 2: i32 59710400 66643904 46377408 53392832 60408256 67423680 46911424 54008768 61106112 68203456 60261824
// expect 2: i32 69407168 78552512 87697856 60795840 70023104 79250368 88477632 61329856 70639040 79948224 89257408
// expect 2: i32 61863872 71254976 80646080 90037184 62397888 71870912 81343936 90816960 62931904 72486848 82041792
// expect 2: i32 91596736 63465920 73102784 82739648 92376512 63999936 73718720 83437504 93156288 77350336 89117120
// expect 2: i32 100883904 112650688 77884352 89733056 101581760 113430464 78418368 90348992 102279616 114210240
// expect 2: i32 78952384 90964928 102977472 114990016 79486400 91580864 103675328 115769792 80020416 92196800
// expect 2: i32 104373184 116549568 80554432 92812736 105071040 117329344 81088448 93428672 105768896 118109120
// expect 2: i32 94438848 108827072 123215296 137603520 94972864 109443008 123913152 138383296 95506880 110058944
// expect 2: i32 124611008 139163072 96040896 110674880 125308864 139942848 96574912 111290816 126006720 140722624
// expect 2: i32 97108928 111906752 126704576 141502400 97642944 112522688 127402432 142282176 98176960 113138624
// expect 2: i32 128100288 143061952

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
    __shared__ alignas(128) f16 a_tile[2][1024], b_tile[2][128];
    __shared__ Barrier full[2], empty[2];
    int t = threadIdx.x;
    if (t == 0) {
        for (int stage = 0; stage < 2; stage++) {
            mbarrier_init(&full[stage], 1);
            mbarrier_init(&empty[stage], 1);
        }
        fence_mbarrier_init();
    }
    __syncthreads();
    if (t >= 128) {
        for (int k = 0; k < 4 && t == 128; k++) {  // the producer
            int stage = k % 2;
            mbarrier_wait(&empty[stage], k / 2 ^ 1);
            mbarrier_arrive_expect_tx(&full[stage], 2048 + 256);
            load_tile(a_tile[stage], a + 1024 * (k % 2), 2048, &full[stage]);
            load_tile(b_tile[stage], b + 128 * (k / 2), 256, &full[stage]);
        }
        return;
    }
    float sums[4] = {};
    pin(sums);
    wgmma_fence();
    for (int k = 0; k < 4; k++) {
        int stage = k % 2;
        mbarrier_wait(&full[stage], k / 2);
        multiply(sums, plain_tile(a_tile[stage]), plain_tile(b_tile[stage]));
        wgmma_commit_group();
        wgmma_wait_group<0>();
        if (t == 0) mbarrier_arrive(&empty[stage]);
        __syncwarp();  // wgmma is for whole warps
    }
    pin(sums);
    out[t] = int(sums[0]) + 2 * int(sums[1]) + 3 * int(sums[2]) + 4 * int(sums[3]);
}
