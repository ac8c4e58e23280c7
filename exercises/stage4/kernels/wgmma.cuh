// Products of a warpgroup, four warps: `wgmma` of compute capability 9.0.
//
// d [64, N] f32 is spread over the registers of 128 threads. Warp w of the four has rows 16 w to
// 16 w + 15, as tiles c of 16 x 8 side by side (mma.cuh): d[n] = columns 8 n to 8 n + 7. The second
// factor, b, is read from shared memory; the first, a, from there or from registers, as tiles a of
// 16 x 16. All 128 threads call each function of a product.
//
// A product runs on after its function has returned: fence, products, commit, wait. Until the wait,
// d and a registers belong to it, and so do the tiles in shared memory.

#pragma once

#include "hopper.cuh"

// ANCHOR: descriptor
// Layout of a factor, for at_address: panels of 128-byte rows in which vectors of 16 bytes have
// swapped places, as copy_box writes them. 8 rows have 1024 bytes. The next 64 columns lie `panel`
// bytes further; that matters only to a factor that is read along its columns.
__device__ __forceinline__ unsigned long long descriptor(unsigned panel) {
    constexpr unsigned long long SWIZZLE_128 = 1ull << 62;
    return SWIZZLE_128 | 1024ull / 16 << 32 | static_cast<unsigned long long>(panel / 16) << 16;
}

// The same at this address. Bits of the address undo the swizzle, so panels begin at multiples of
// 1024, and 16 columns further is 32 bytes further.
__device__ __forceinline__ unsigned long long at_address(unsigned long long descriptor, unsigned address_smem) {
    return descriptor | (address_smem & 0x3ffff) / 16;
}
// ANCHOR_END: descriptor

// Orders what ordinary instructions did to registers of d and a before the products that follow.
__device__ __forceinline__ void wgmma_fence() {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

// Puts the products since the last group into a new one.
__device__ __forceinline__ void wgmma_commit_group() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// ANCHOR: wait
// Waits until at most PENDING groups run. `d` are the sums of one that has ended then.
template <int PENDING, int N>
__device__ __forceinline__ void wgmma_wait_group(float (&d)[N][4]) {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
    for (int e = 0; e < 4 * N; e++) {
        asm volatile("" : "+f"(d[e / 4][e % 4])::"memory");  // the compiler reads no sum before the wait
    }
}
// ANCHOR_END: wait

// Changes the registers of each thread of the warpgroup to N, a multiple of 8 from 24 to 256. `dec`
// gives the others back to the block's pool; `inc` waits until the pool has enough.
template <int N>
__device__ __forceinline__ void setmaxnreg_dec() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
}

template <int N>
__device__ __forceinline__ void setmaxnreg_inc() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
}

// Waits at a named barrier, 1 to 15, until COUNT threads have come to it, or arrived.
template <int COUNT>
__device__ __forceinline__ void bar_sync(int barrier) {
    asm volatile("bar.sync %0, %1;" ::"r"(barrier), "n"(COUNT) : "memory");
}

// Arrives at a named barrier, and goes on.
template <int COUNT>
__device__ __forceinline__ void bar_arrive(int barrier) {
    asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "n"(COUNT) : "memory");
}

#define SUMS_1(n) "+f"(d[n][0]), "+f"(d[n][1]), "+f"(d[n][2]), "+f"(d[n][3])
#define SUMS_8(n) SUMS_1(n), SUMS_1(n + 1), SUMS_1(n + 2), SUMS_1(n + 3), SUMS_1(n + 4), SUMS_1(n + 5), SUMS_1(n + 6), SUMS_1(n + 7)
#define NAMES_32 \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define NAMES_64 \
    NAMES_32 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"

#define ROWS(type) \
    asm volatile( \
        "{.reg .pred p; setp.ne.b32 p, %66, 0;\n" \
        "wgmma.mma_async.sync.aligned.m64n128k16.f32." type "." type " {" NAMES_64 "}, %64, %65, p, 1, 1, 0, 0;}" \
        : SUMS_8(0), SUMS_8(8) \
        : "l"(a), "l"(b), "r"(static_cast<int>(adds)))
#define COLUMNS_64(type) \
    asm volatile( \
        "wgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type " {" NAMES_32 "}, {%32, %33, %34, %35}, %36, 1, 1, 1, 1;" \
        : SUMS_8(0) \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b))
#define COLUMNS_128(type) \
    asm volatile( \
        "wgmma.mma_async.sync.aligned.m64n128k16.f32." type "." type " {" NAMES_64 "}, {%64, %65, %66, %67}, %68, 1, 1, 1, 1;" \
        : SUMS_8(0), SUMS_8(8) \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b))

// Starts d = a b^T, or d += a b^T if it `adds`: a [64, 16], b [128, 16] f16 or bf16, both read
// along rows.
template <bool BF16 = false>
__device__ __forceinline__ void wgmma_rows(float (&d)[16][4], unsigned long long a, unsigned long long b, bool adds) {
    if constexpr (BF16) {
        ROWS("bf16");
    } else {
        ROWS("f16");
    }
}

// Starts d += a b: a [64, 16] f16 or bf16 in registers, b [16, N], read along columns.
template <bool BF16 = false>
__device__ __forceinline__ void wgmma_columns(float (&d)[8][4], const unsigned (&a)[4], unsigned long long b) {
    if constexpr (BF16) {
        COLUMNS_64("bf16");
    } else {
        COLUMNS_64("f16");
    }
}

template <bool BF16 = false>
__device__ __forceinline__ void wgmma_columns(float (&d)[16][4], const unsigned (&a)[4], unsigned long long b) {
    if constexpr (BF16) {
        COLUMNS_128("bf16");
    } else {
        COLUMNS_128("f16");
    }
}

#undef ROWS
#undef COLUMNS_64
#undef COLUMNS_128
#undef SUMS_1
#undef SUMS_8
#undef NAMES_32
#undef NAMES_64
