// A product of 128 by 32: a warpgroup copies tiles for two others, and gives them its registers.
//
// arch: compute_90a
// launch: grid=192 block=128 kernel=fill pass=0,1
// launch: grid=1 block=384 kernel=gemm pass=2,3,4
// args: f16[24576]=uninit f16[6144]=uninit
// args: tensormap{0,192x128,box=64x64,swizzle=128} tensormap{1,192x32,box=64x32,swizzle=128} i32[256]=zeros
// bug: none
// expect 4: i32 19075 -6998 -15998 15049 14818 8669 -17003 -2740 -2319 19331 -6955 -16399 -16390 14964 8532 -17136
// expect 4: i32 -16895 -2451 19049 -6729 -6991 -16352 15160 8396 8702 -17163 -2785 19559 19075 -6998 -15998 15049
// expect 4: i32 -2319 19331 -6955 -16399 -16390 14964 8532 -17136 -16895 -2451 19049 -6729 -6991 -16352 15160 8396
// expect 4: i32 8702 -17163 -2785 19559 19075 -6998 -15998 15049 14818 8669 -17003 -2740 -2319 19331 -6955 -16399
// expect 4: i32 -16895 -2451 19049 -6729 -6991 -16352 15160 8396 8702 -17163 -2785 19559 19075 -6998 -15998 15049
// expect 4: i32 14818 8669 -17003 -2740 -2319 19331 -6955 -16399 -16390 14964 8532 -17136 -16895 -2451 19049 -6729
// expect 4: i32 8702 -17163 -2785 19559 19075 -6998 -15998 15049 14818 8669 -17003 -2740 -2319 19331 -6955 -16399
// expect 4: i32 -16390 14964 8532 -17136 -16895 -2451 19049 -6729 -6991 -16352 15160 8396 8702 -17163 -2785 19559
// expect 4: i32 14818 8669 -17003 -2740 -2319 19331 -6955 -16399 -16390 14964 8532 -17136 -16895 -2451 19049 -6729
// expect 4: i32 -6991 -16352 15160 8396 8702 -17163 -2785 19559 19075 -6998 -15998 15049 14818 8669 -17003 -2740
// expect 4: i32 -16390 14964 8532 -17136 -16895 -2451 19049 -6729 -6991 -16352 15160 8396 8702 -17163 -2785 19559
// expect 4: i32 19075 -6998 -15998 15049 14818 8669 -17003 -2740 -2319 19331 -6955 -16399 -16390 14964 8532 -17136
// expect 4: i32 -6991 -16352 15160 8396 8702 -17163 -2785 19559 19075 -6998 -15998 15049 14818 8669 -17003 -2740
// expect 4: i32 -2319 19331 -6955 -16399 -16390 14964 8532 -17136 -16895 -2451 19049 -6729 -6991 -16352 15160 8396
// expect 4: i32 19075 -6998 -15998 15049 14818 8669 -17003 -2740 -2319 19331 -6955 -16399 -16390 14964 8532 -17136
// expect 4: i32 -16895 -2451 19049 -6729 -6991 -16352 15160 8396 8702 -17163 -2785 19559 19075 -6998 -15998 15049

#include "wgmma.cuh"

extern "C" __global__ void fill(f16* a, f16* b) {
    int i = blockIdx.x * 128 + threadIdx.x;
    a[i] = sample(i);
    if (i < 32 * 192) b[i] = sample(2 * i + 1);
}

extern "C" __global__ void __launch_bounds__(384, 1)
    gemm(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, int* out) {
    __shared__ alignas(1024) f16 a_tile[2][2][64 * 64], b_tile[2][32 * 64];  // of A a tile for each consumer
    __shared__ Barrier full[2], empty[2];
    int t = threadIdx.x, group = t / 128;
    if (t == 0) {
        for (int stage = 0; stage < 2; stage++) {
            mbarrier_init(&full[stage], 1);
            mbarrier_init(&empty[stage], 256);
        }
        fence_mbarrier_init();
    }
    __syncthreads();
    if (group == 2) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;" ::: "memory");
        for (int step = 0; step < 3 && t == 256; step++) {
            int stage = step % 2;
            mbarrier_wait(&empty[stage], step / 2 ^ 1);
            mbarrier_arrive_expect_tx(&full[stage], sizeof(a_tile[stage]) + sizeof(b_tile[stage]));
            tensor_load(a_tile[stage][0], a, 64 * step, 0, &full[stage]);
            tensor_load(a_tile[stage][1], a, 64 * step, 64, &full[stage]);
            tensor_load(b_tile[stage], b, 64 * step, 0, &full[stage]);
        }
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;" ::: "memory");
        float sums[16] = {};
        for (int step = 0; step < 3; step++) {
            int stage = step % 2;
            mbarrier_wait(&full[stage], step / 2);
            pin(sums);
            wgmma_fence();
            for (int k = 0; k < 64; k += 16) {
                wgmma_m64n32k16(sums, swizzled_tile(a_tile[stage][group] + k), swizzled_tile(b_tile[stage] + k));
            }
            wgmma_commit_group();
            wgmma_wait_group<0>();
            pin(sums);
            mbarrier_arrive(&empty[stage]);
        }
        int folded = 0;
        for (int i = 0; i < 16; i++) folded += (i + 1) * int(sums[i]);
        out[t] = folded;
    }
}
