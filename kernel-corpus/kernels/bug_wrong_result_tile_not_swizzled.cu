// A tensor copy writes a tile with no swizzle, and its descriptor states one of 128 bytes.
//
// arch: compute_90a
// launch: grid=32 block=128 kernel=fill pass=0,1
// launch: grid=1 block=128 kernel=product pass=2,3,4
// args: f16[4096]=uninit f16[512]=uninit
// args: tensormap{0,64x64,box=64x64} tensormap{1,64x8,box=64x8,swizzle=128} i32[128]=zeros
// bug: wrong result
// expect 4: i32 152 6 -266 470 510 -387 200 -102 -63 88 50 -275 -286 472 -387 196 44 -61 72 44 -11 -244 440 -395
// expect 4: i32 -346 126 -109 62 152 6 -266 470 -63 88 50 -275 -286 472 -387 196 44 -61 72 44 -11 -244 440 -395 -346
// expect 4: i32 126 -109 62 152 6 -266 470 510 -387 200 -102 -63 88 50 -275 44 -61 72 44 -11 -244 440 -395 -346 126
// expect 4: i32 -109 62 152 6 -266 470 510 -387 200 -102 -63 88 50 -275 -286 472 -387 196 44 -61 72 44 -346 126 -109
// expect 4: i32 62 152 6 -266 470 510 -387 200 -102 -63 88 50 -275 -286 472 -387 196 44 -61 72 44 -11 -244 440 -395
// expect 4: i32 -346 126 -109 62

#include "wgmma.cuh"

extern "C" __global__ void fill(f16* a, f16* b) {
    int i = blockIdx.x * 128 + threadIdx.x;
    a[i] = sample(i);
    if (i < 512) b[i] = sample(2 * i + 1);
}

extern "C" __global__ void product(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b,
                                   int* out) {
    __shared__ alignas(1024) f16 a_tile[64 * 64], b_tile[8 * 64];
    __shared__ Barrier full;
    int t = threadIdx.x;
    if (t == 0) {
        mbarrier_init(&full, 1);
        fence_mbarrier_init();
        mbarrier_arrive_expect_tx(&full, sizeof(a_tile) + sizeof(b_tile));
        tensor_load(a_tile, a, 0, 0, &full);
        tensor_load(b_tile, b, 0, 0, &full);
    }
    __syncthreads();
    mbarrier_wait(&full, 0);
    float sums[4] = {};
    pin(sums);
    wgmma_fence();
    for (int k = 0; k < 64; k += 16) {
        wgmma_m64n8k16(sums, swizzled_tile(a_tile + k), swizzled_tile(b_tile + k));
    }
    wgmma_commit_group();
    wgmma_wait_group<0>();
    pin(sums);
    out[t] = int(sums[0]) + 2 * int(sums[1]) + 3 * int(sums[2]) + 4 * int(sums[3]);
}
