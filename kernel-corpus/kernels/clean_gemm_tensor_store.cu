// The results of a product go to a tile, with the swizzle of its tensor map, and from there by a
// tensor copy.
//
// arch: compute_90a
// launch: grid=32 block=128 kernel=fill pass=0,1
// launch: grid=1 block=128 kernel=gemm pass=3,4,5
// launch: grid=1 block=64 kernel=fold pass=2,6
// args: f16[4096]=uninit f16[4096]=uninit f16[4096]=zeros
// args: tensormap{0,64x64,box=64x64,swizzle=128} tensormap{1,64x64,box=64x64,swizzle=128}
// args: tensormap{2,64x64,box=64x64,swizzle=128} i32[64]=zeros
// bug: none
// expect 6: i32 1786 4230 -3805 -2005 2560 -43 -2723 1786 4230 -3805 -2005 2560 -43 -2723 1786 4230 -3805 -2005 2560
// expect 6: i32 -43 -2723 1786 4230 -3805 -2005 2560 -43 -2723 1786 4230 -3805 -2005 2560 -43 -2723 1786 4230 -3805
// expect 6: i32 -2005 2560 -43 -2723 1786 4230 -3805 -2005 2560 -43 -2723 1786 4230 -3805 -2005 2560 -43 -2723 1786
// expect 6: i32 4230 -3805 -2005 2560 -43 -2723 1786

#include "prelude.cuh"
#include "wgmma.cuh"

// Copies to the box of a matrix whose first element is in this column and row.
__device__ __forceinline__ void store_box(const TensorMap& map, int column, int row, const void* from) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];"
                 ::"l"(&map), "r"(column), "r"(row), "r"(shared_address(from)) : "memory");
}

extern "C" __global__ void fill(f16* a, f16* b) {
    int i = blockIdx.x * 128 + threadIdx.x;
    a[i] = sample(i);
    b[i] = sample(2 * i + 1);
}

extern "C" __global__ void fold(const f16* c, int* out) {
    int row = threadIdx.x, folded = 0;
    for (int i = 0; i < 64; i++) folded += (i + 1) * int(cvt_f32_f16(c[64 * row + i]));
    out[row] = folded;
}

extern "C" __global__ void gemm(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b,
                                const __grid_constant__ TensorMap c) {
    __shared__ alignas(1024) f16 a_tile[64 * 64], b_tile[64 * 64], c_tile[64 * 64];
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
    float sums[32] = {};
    pin(sums);
    wgmma_fence();
    for (int k = 0; k < 64; k += 16) wgmma_m64n64k16(sums, swizzled_tile(a_tile + k), swizzled_tile(b_tile + k));
    wgmma_commit_group();
    wgmma_wait_group<0>();
    pin(sums);
    for (int i = 0; i < 32; i += 2) {
        int chunk = column(i) / 8 ^ row(i) % 8;  // the swizzle: 16 bytes of a row move with the row
        unsigned* at = reinterpret_cast<unsigned*>(&c_tile[64 * row(i) + 8 * chunk + column(i) % 8]);
        *at = pair(sums[i], sums[i + 1]);
    }
    fence_proxy_async();  // so that the copy reads what was stored
    __syncthreads();
    if (t == 0) {
        store_box(c, 0, 0, c_tile);
        bulk_commit_group();
        bulk_wait_group_read<0>();
    }
}
