// A tile of B of which five columns are filled. The sums of a sixth are stored.
//
// arch: compute_90a
// launch: grid=1 block=128
// args: f16[640]=iota f16[80]=iota f32[240]=uninit
// bug: uninitialised shared

#include "wgmma.cuh"

// d += a b, 64 by 8, of 16 products for each sum.
__device__ __forceinline__ void multiply(float (&d)[4], unsigned long long a, unsigned long long b) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(a), "l"(b) : "memory");  // BUG
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
        if (row(i) < 40 && column(i) < 6) out[6 * row(i) + column(i)] = sums[i];  // BUG
    }
}
