// Instructions of tensor cores, by name, the parts of tiles that the lanes of a warp hold, and
// reductions of their rows.
//
// A tile is spread over the registers of the 32 lanes. Lane 4 g + t, with g < 8 and t < 4, holds of
//
//     a [16, 16] f16: a[0] = rows g,     columns 2 t, 2 t + 1
//                     a[1] = rows g + 8, columns 2 t, 2 t + 1
//                     a[2] = rows g,     columns 2 t + 8, 2 t + 9
//                     a[3] = rows g + 8, columns 2 t + 8, 2 t + 9
//     b [16, 8] f16:  b0 = rows 2 t, 2 t + 1 of column g
//                     b1 = rows 2 t + 8, 2 t + 9 of column g
//     c [16, 8] f32:  c[0], c[1] = row g,     columns 2 t, 2 t + 1
//                     c[2], c[3] = row g + 8, columns 2 t, 2 t + 1
//
// A register has two f16, the first in its lower half. Two tiles c side by side,
// rounded to f16, are a tile a.

#pragma once

// The address that these instructions take of something in shared memory.
__device__ __forceinline__ unsigned shared_address(const void* object_smem) {
    return static_cast<unsigned>(__cvta_generic_to_shared(object_smem));
}

// d = a b + c, with sums in f32.
__device__ __forceinline__ void mma_m16n8k16(
    float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1, const float (&c)[4]
) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
        : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));
}

// The f16 nearest to each of two values, ties to even; `low` in the lower half.
__device__ __forceinline__ unsigned cvt_rn_f16x2_f32(float low, float high) {
    unsigned bits;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
    return bits;
}

// Four 8 x 8 tiles of f16 from shared memory. Lane 8 i + r gives the address of row r of tile i, 16
// bytes. Lane 4 g + t gets columns 2 t, 2 t + 1 of row g of tile i in d[i].
__device__ __forceinline__ void ldmatrix_x4(unsigned (&d)[4], unsigned row_smem) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
                 : "r"(row_smem)
                 : "memory");
}

// The same with each tile transposed: lane 4 g + t gets rows 2 t, 2 t + 1 of column g.
__device__ __forceinline__ void ldmatrix_x4_trans(unsigned (&d)[4], unsigned row_smem) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
                 : "r"(row_smem)
                 : "memory");
}

// Starts a copy of 16 bytes, of which the first `bytes` are read and the rest are zeros.
__device__ __forceinline__ void cp_async_cg_shared_global_16(unsigned target_smem, const void* source, int bytes) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(target_smem), "l"(source), "r"(bytes) : "memory");
}

// Puts the copies that this thread has started since the last group into a new one.
__device__ __forceinline__ void cp_async_commit_group() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}

// Waits until at most N groups of this thread are on their way.
template <int N>
__device__ __forceinline__ void cp_async_wait_group() {
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

// The largest x of the 4 lanes that share a row of c, in each of them. All 32 must call it.
__device__ __forceinline__ float row_max(float x) {
    x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
    return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}

// The sum of x over the 4 lanes that share a row of c, in each of them. All 32 must call it.
__device__ __forceinline__ float row_sum(float x) {
    x += __shfl_xor_sync(0xffffffffu, x, 1);
    return x + __shfl_xor_sync(0xffffffffu, x, 2);
}
