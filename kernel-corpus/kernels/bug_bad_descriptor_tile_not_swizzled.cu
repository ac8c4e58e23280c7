// A tensor copy writes a tile with no swizzle, and its descriptor states one of 128 bytes.
//
// arch: compute_90a
// launch: grid=32 block=128 kernel=fill pass=0,1
// launch: grid=1 block=128 kernel=product pass=2,3,4
// args: f16[4096]=uninit f16[512]=uninit
// args: tensormap{0,64x64,box=64x64} tensormap{1,64x8,box=64x8,swizzle=128} i32[128]=zeros
// bug: bad descriptor

#include "wgmma.cuh"

// d += a b, 64 by 8, of 16 products for each sum.
__device__ __forceinline__ void multiply(float (&d)[4], unsigned long long a, unsigned long long b) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(a), "l"(b) : "memory");  // BUG
}

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
        multiply(sums, swizzled_tile(a_tile + k), swizzled_tile(b_tile + k));
    }
    wgmma_commit_group();
    wgmma_wait_group<0>();
    pin(sums);
    out[t] = int(sums[0]) + 2 * int(sums[1]) + 3 * int(sums[2]) + 4 * int(sums[3]);
}
