// A product of 64 by 64 with k up to 256: while a step is multiplied, the tiles of the next are
// copied.
//
// arch: compute_90a
// launch: grid=128 block=128 kernel=fill pass=0,1
// launch: grid=1 block=128 kernel=gemm pass=2,3,4
// args: f16[16384]=uninit f16[16384]=uninit
// args: tensormap{0,256x64,box=64x64,swizzle=128} tensormap{1,256x64,box=64x64,swizzle=128} i32[128]=zeros
// bug: none
// expect 4: i32 24194 -27428 -16372 37657 38118 -2180 -37382 21384 20871 24356 -27242 -16834 -16221 37396 -2346
// expect 4: i32 -36740 -37269 20973 24657 -27379 -27671 -16457 37947 -2387 -2022 -36660 20738 24299 24194 -27428
// expect 4: i32 -16372 37657 20871 24356 -27242 -16834 -16221 37396 -2346 -36740 -37269 20973 24657 -27379 -27671
// expect 4: i32 -16457 37947 -2387 -2022 -36660 20738 24299 24194 -27428 -16372 37657 38118 -2180 -37382 21384 20871
// expect 4: i32 24356 -27242 -16834 -37269 20973 24657 -27379 -27671 -16457 37947 -2387 -2022 -36660 20738 24299
// expect 4: i32 24194 -27428 -16372 37657 38118 -2180 -37382 21384 20871 24356 -27242 -16834 -16221 37396 -2346
// expect 4: i32 -36740 -37269 20973 24657 -27379 -2022 -36660 20738 24299 24194 -27428 -16372 37657 38118 -2180
// expect 4: i32 -37382 21384 20871 24356 -27242 -16834 -16221 37396 -2346 -36740 -37269 20973 24657 -27379 -27671
// expect 4: i32 -16457 37947 -2387 -2022 -36660 20738 24299

#include "wgmma.cuh"

extern "C" __global__ void fill(f16* a, f16* b) {
    int i = blockIdx.x * 128 + threadIdx.x;
    a[i] = sample(i);
    b[i] = sample(2 * i + 1);
}

extern "C" __global__ void gemm(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, int* out) {
    __shared__ alignas(1024) f16 a_tile[2][64 * 64], b_tile[2][64 * 64];
    __shared__ Barrier full[2];
    int t = threadIdx.x;
    if (t == 0) {
        for (int stage = 0; stage < 2; stage++) mbarrier_init(&full[stage], 1);
        fence_mbarrier_init();
    }
    __syncthreads();
    auto load = [&](int step) {
        int stage = step % 2;
        mbarrier_arrive_expect_tx(&full[stage], sizeof(a_tile[stage]) + sizeof(b_tile[stage]));
        tensor_load(a_tile[stage], a, 64 * step, 0, &full[stage]);
        tensor_load(b_tile[stage], b, 64 * step, 0, &full[stage]);
    };
    if (t == 0) load(0);
    float sums[32] = {};
    for (int step = 0; step < 4; step++) {
        int stage = step % 2;
        if (t == 0 && step < 3) load(step + 1);
        __syncwarp();  // wgmma is for whole warps
        mbarrier_wait(&full[stage], step / 2);
        pin(sums);
        wgmma_fence();
        for (int k = 0; k < 64; k += 16) {
            wgmma_m64n64k16(sums, swizzled_tile(a_tile[stage] + k), swizzled_tile(b_tile[stage] + k));
        }
        wgmma_commit_group();
        wgmma_wait_group<0>();
        pin(sums);
        __syncthreads();  // so that no copy overwrites what another warp's product still reads
    }
    int folded = 0;
    for (int i = 0; i < 32; i++) folded += (i + 1) * int(sums[i]);
    out[t] = folded;
}
