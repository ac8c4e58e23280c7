// `wgmma` by name, for operands of f16 and sums of f32: descriptors of tiles, products, places of
// results.
//
// An operand is K-major if elements that differ in k lie side by side: A as 64 rows of k, B as N
// rows of k.

#pragma once

#include "hopper.cuh"

// A tile with no swizzle and 16 values of k: 8 rows of 8 values lie together, then the same 8 rows
// of the other 8 values, then the next 8 rows.
__device__ __forceinline__ unsigned long long plain_tile(const f16* tile) {
    unsigned long long next_in_k = 128, next_rows = 256;  // bytes
    return shared_address(tile) >> 4 | next_in_k >> 4 << 16 | next_rows >> 4 << 32;
}

// A tile that TMA has written with a swizzle of 128 bytes, in rows of 64 values: from this value of
// the first row on. If rows differ in n, not in k, the operand is to be transposed.
__device__ __forceinline__ unsigned long long swizzled_tile(const f16* tile) {
    unsigned long long next_rows = 1024, swizzle_128 = 1;  // 8 rows of 128 bytes
    return shared_address(tile) >> 4 | 1ull << 16 | next_rows >> 4 << 32 | swizzle_128 << 62;
}

__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit_group() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int N> __device__ __forceinline__ void wgmma_wait_group() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}

// No instruction. The compiler may not move uses of these registers across it, which it does across
// a wait.
template <int N> __device__ __forceinline__ void pin(float (&registers)[N]) {
    for (float& x : registers) asm volatile("" : "+f"(x)::"memory");
}
template <int N> __device__ __forceinline__ void pin(unsigned (&registers)[N]) {
    for (unsigned& x : registers) asm volatile("" : "+r"(x)::"memory");
}

// Row and column of a thread's result i in the 64 by N results of its warpgroup.
__device__ __forceinline__ int row(int i) { return threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4 + i / 2 % 2 * 8; }
__device__ __forceinline__ int column(int i) { return i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2; }

// The bits of a small whole number, another one for each i near another; and of two numbers.
__device__ __forceinline__ f16 sample(int i) {
    f16 bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(static_cast<float>((i * 5 + i / 64) % 7 - 3)));
    return bits;
}
__device__ __forceinline__ unsigned pair(float low, float high) {
    unsigned bits;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
    return bits;
}

// d += a b, of 16 products for each sum.
__device__ __forceinline__ void wgmma_m64n8k16(float (&d)[4], unsigned long long a, unsigned long long b) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 "
        "{%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "l"(a), "l"(b)
        : "memory");
}
__device__ __forceinline__ void wgmma_m64n32k16(float (&d)[16], unsigned long long a, unsigned long long b) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, %16, %17, 1, 1, 1, 0, 0;"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
          "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
        : "l"(a), "l"(b)
        : "memory");
}
__device__ __forceinline__ void wgmma_m64n64k16(float (&d)[32], unsigned long long a, unsigned long long b) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15,"
        " %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, %32, %33, 1, 1, 1, 0, 0;"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
          "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
          "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
          "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
        : "l"(a), "l"(b)
        : "memory");
}
// The same with A in registers, and rows of B that differ in k.
__device__ __forceinline__ void wgmma_m64n64k16_transposed_b(float (&d)[32], unsigned (&a)[4], unsigned long long b) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15,"
        " %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
        "{%32, %33, %34, %35}, %36, 1, 1, 1, 1;"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
          "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
          "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
          "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b)
        : "memory");
}
