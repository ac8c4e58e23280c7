// Products of a warpgroup, four warps: `wgmma` of compute capability 9.0.
//
// d [64, N] f32 is spread over the registers of 128 threads. Warp w has rows 16 w to 16 w + 15, as
// tiles c of 16 x 8 side by side (mma.cuh): d[n] = columns 8 n to 8 n + 7. Factors are read from
// shared memory, or, of a, from registers: tiles a of 16 x 16.

#pragma once

#include "hopper.cuh"

// Where a factor lies: panels of 128-byte rows in which vectors of 16 bytes have swapped places, as
// copy_box writes them. Rows are 8 groups of 1024 bytes apart; the next 64 columns lie `panel`
// bytes further, which matters only to a factor that is read along its columns.
__device__ __forceinline__ unsigned long long descriptor(unsigned panel) {
    constexpr unsigned long long SWIZZLE_128 = 1ull << 62;
    return SWIZZLE_128 | 1024ull / 16 << 32 | static_cast<unsigned long long>(panel / 16) << 16;
}

// The same, of a factor at this address.
__device__ __forceinline__ unsigned long long at_address(unsigned long long descriptor, unsigned address_smem) {
    return descriptor | (address_smem & 0x3ffff) / 16;
}

// Before the first product, and after registers of a product were used otherwise.
__device__ __forceinline__ void wgmma_fence() {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

// Puts the products since the last group into a new one.
__device__ __forceinline__ void wgmma_commit_group() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// Waits until at most N groups run, and gives back the sums of those that ended.
template <int PENDING, int N>
__device__ __forceinline__ void wgmma_wait_group(float (&d)[N][4]) {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
    for (int e = 0; e < 4 * N; e++) {
        asm volatile("" : "+f"(d[e / 4][e % 4])::"memory");  // the compiler reads no sum before the wait
    }
}

// Each thread of the warpgroup has N registers from now on, and gives back the rest of its own, or
// takes more, once others have given back enough.
template <int N>
__device__ __forceinline__ void setmaxnreg_dec() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
}

template <int N>
__device__ __forceinline__ void setmaxnreg_inc() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
}

#define SUMS_1(n) "+f"(d[n][0]), "+f"(d[n][1]), "+f"(d[n][2]), "+f"(d[n][3])
#define SUMS_8(n) SUMS_1(n), SUMS_1(n + 1), SUMS_1(n + 2), SUMS_1(n + 3), SUMS_1(n + 4), SUMS_1(n + 5), SUMS_1(n + 6), SUMS_1(n + 7)
#define NAMES_32 \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define NAMES_64 \
    NAMES_32 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"

// Starts d = a b^T, or d += a b^T if it `adds`: a [64, 16], b [N, 16] f16, both read along rows.
__device__ __forceinline__ void wgmma_rows(float (&d)[8][4], unsigned long long a, unsigned long long b, bool adds) {
    asm volatile(
        "{.reg .pred p; setp.ne.b32 p, %34, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {" NAMES_32 "}, %32, %33, p, 1, 1, 0, 0;}"
        : SUMS_8(0)
        : "l"(a), "l"(b), "r"(static_cast<int>(adds)));
}

__device__ __forceinline__ void wgmma_rows(float (&d)[16][4], unsigned long long a, unsigned long long b, bool adds) {
    asm volatile(
        "{.reg .pred p; setp.ne.b32 p, %66, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {" NAMES_64 "}, %64, %65, p, 1, 1, 0, 0;}"
        : SUMS_8(0), SUMS_8(8)
        : "l"(a), "l"(b), "r"(static_cast<int>(adds)));
}

// Starts d += a b: a [64, 16] f16 in registers, b [16, N] f16, read along columns.
__device__ __forceinline__ void wgmma_columns(float (&d)[8][4], const unsigned (&a)[4], unsigned long long b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {" NAMES_32 "}, {%32, %33, %34, %35}, %36, 1, 1, 1, 1;"
                 : SUMS_8(0)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

__device__ __forceinline__ void wgmma_columns(float (&d)[16][4], const unsigned (&a)[4], unsigned long long b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {" NAMES_64 "}, {%64, %65, %66, %67}, %68, 1, 1, 1, 1;"
                 : SUMS_8(0), SUMS_8(8)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

#undef SUMS_1
#undef SUMS_8
#undef NAMES_32
#undef NAMES_64
