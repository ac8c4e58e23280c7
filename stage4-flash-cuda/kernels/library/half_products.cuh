// Products of tiles on tensor cores, for the backward pass in half precision, and the rounding of
// what is multiplied. As backward/swizzled.cuh, with any head dimension and both element types.
//
// A warp has 16 TILES rows of a product, in tiles of 16: half_scores.cuh says which elements a lane
// has. mma.cuh has the fragments.

#pragma once

#include "element.cuh"
#include "half_rows.cuh"
#include "half_scores.cuh"
#include "weights.cuh"

constexpr float FAR = 1024.0f;  // a score from here on is rounded before the log-sum-exp is subtracted
// p times UNIT is rounded, so that a small p is a normal number of f16, too.
constexpr float UNIT = 4096.0f;
constexpr float UNIT_LOG2 = 12.0f;

// The number of this thread, and of its lane, read anew, so that no register keeps it.
__device__ __forceinline__ unsigned thread_anew() {
    unsigned thread;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
    return thread;
}
__device__ __forceinline__ unsigned lane_anew() {
    return thread_anew() % 32;
}

// Where a lane reads its first fragment of 16 x 16 from row `row` on: as a, or as b by
// ldmatrix_x4_trans; and as b transposed, where 16 columns of b are 16 rows of the tile.
__device__ __forceinline__ unsigned a_lane(const Vector* rows_smem, int row, unsigned lane) {
    return shared_address(&rows_smem[at(row + lane % 16, lane / 16)]);
}
__device__ __forceinline__ unsigned bt_lane(const Vector* rows_smem, int row, unsigned lane) {
    return shared_address(&rows_smem[at(row + lane / 16 * 8 + lane % 8, lane / 8 % 2)]);
}

// product += a b^T: this warp's rows of a by 8 N rows of b. Columns are those of D, of which so
// many steps of 16 are unrolled: more need registers that the kernel may not have.
template <int STEPS, int N, int TILES>
__device__ __forceinline__ void multiply(float (&product)[N][TILES][4], unsigned a, unsigned b) {
#pragma unroll STEPS
    for (int c = 0; c < VECTORS; c += 2) {
        unsigned a_reg[TILES][4];  // tiles of 16 rows of a x 16 columns
        for (int m = 0; m < TILES; m++) {
            ldmatrix_x4(a_reg[m], behind(a, 16 * m, c));
        }
        for (int n = 0; n < N; n += 2) {
            unsigned b_reg[4];  // 16 rows of b x 16 columns: b0 and b1 of 8 rows, then of the next 8
            ldmatrix_x4(b_reg, behind(b, 8 * n, c));
            for (int m = 0; m < TILES; m++) {
                Half::mma_m16n8k16(product[n][m], a_reg[m], b_reg[0], b_reg[1], product[n][m]);
                Half::mma_m16n8k16(product[n + 1][m], a_reg[m], b_reg[2], b_reg[3], product[n + 1][m]);
            }
        }
    }
}

// sum += a b: 16 columns of a by as many rows of b, from row `row` on.
template <int TILES>
__device__ __forceinline__ void accumulate(
    float (&sum)[VECTORS][TILES][4], const unsigned (&a)[TILES][4], unsigned b, int row
) {
#pragma unroll
    for (int n = 0; n < VECTORS; n += 2) {
        unsigned b_reg[4];  // 16 rows of b x 16 columns: b0 and b1 of 8 columns, then of the next 8
        ldmatrix_x4_trans(b_reg, behind(b, row, n));
        for (int m = 0; m < TILES; m++) {
            Half::mma_m16n8k16(sum[n][m], a[m], b_reg[0], b_reg[1], sum[n][m]);
            Half::mma_m16n8k16(sum[n + 1][m], a[m], b_reg[2], b_reg[3], sum[n + 1][m]);
        }
    }
}

// The fragments a of 16 columns of a product, from column 8 n on, rounded.
template <int N, int TILES>
__device__ __forceinline__ void round_columns(unsigned (&a)[TILES][4], const float (&product)[N][TILES][4], int n) {
    for (int m = 0; m < TILES; m++) {
        for (int e = 0; e < 4; e++) {
            const float* pair = &product[n + e / 2][m][e % 2 * 2];
            a[m][e] = Half::round_pair(pair[0], pair[1]);
        }
    }
}

// The products of two pairs of f16, rounded to f16.
__device__ __forceinline__ unsigned mul_rn_f16x2(unsigned a, unsigned b) {
    unsigned d;
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
    return d;
}

template <typename T>
constexpr bool IS_F16 = false;
template <>
constexpr bool IS_F16<f16> = true;

// The products of a pair of weights with two values, rounded to elements. In f16 the values are
// rounded first, which takes fewer instructions; in bf16 the product is rounded once.
__device__ __forceinline__ unsigned weighted_pair(unsigned weights, float low, float high) {
    if constexpr (IS_F16<Half>) {
        return mul_rn_f16x2(weights, Half::round_pair(low, high));
    } else {
        const Half p[2] = {{static_cast<unsigned short>(weights)}, {static_cast<unsigned short>(weights >> 16)}};
        return Half::round_pair(widened(p[0]) * low, widened(p[1]) * high);
    }
}

// What f16 has room for: numbers up to 65504, which below 2^-14 lose digits. So a warp rounds
// multiples of 2^-exponent, the largest of them from 2^-10 to 2. Where a tile's are not, it changes
// the exponent, and what it has summed up with it, which is exact. bf16 has the range of f32.
constexpr int FIRST_EXPONENT = IS_F16<Half> ? 40 : 0;
constexpr int MOST_EXPONENT = FIRST_EXPONENT / 2;  // to which it rises: sums of large values have room

__device__ __forceinline__ float power_of_2(int exponent) {
    return __int_as_float((127 + exponent) << 23);
}

template <int N, int TILES>
__device__ __forceinline__ void fit_exponent(
    int& exponent, float (&value)[N][TILES][4], float (&sum)[VECTORS][TILES][4]
) {
    if constexpr (IS_F16<Half>) {
        float largest = 0.0f;
#pragma unroll
        for (int e = 0; e < 4 * N * TILES; e++) {
            largest = fmaxf(largest, fabsf(value[e / 4 / TILES][e / 4 % TILES][e % 4]));
        }
        const bool small = largest < 0x1p-10f && exponent < MOST_EXPONENT;
        if (__any_sync(0xffffffffu, largest >= 2.0f) || __all_sync(0xffffffffu, small)) {
            largest = warp_max(largest);
            // Room for 8 times as much: the largest becomes at least 1/8, and less than 1/4.
            const int wanted = min(static_cast<int>(__float_as_uint(largest) >> 23) - 127 + 3, 126);
            const int lower = largest == 0.0f ? 0 : max(wanted, max(exponent - MOST_EXPONENT, -126));
            const float factor = power_of_2(-lower);
            exponent = max(exponent - lower, -126);
#pragma unroll
            for (int e = 0; e < 4 * N * TILES; e++) {
                value[e / 4 / TILES][e / 4 % TILES][e % 4] *= factor;
            }
#pragma unroll
            for (int e = 0; e < 4 * VECTORS * TILES; e++) {
                sum[e / 4 / TILES][e / 4 % TILES][e % 4] *= factor;
            }
        }
    }
}

// Stores factor * sum in rows from `first` + `row` on of a matrix that ends before row `end`, by
// way of rows of a tile from `row` on that no other warp reads any more.
template <int TILES>
__device__ __forceinline__ void store_sums(
    Half* matrix, long long row_stride, Vector* tile_smem, const float (&sum)[VECTORS][TILES][4], float factor, int row,
    int first, int end, int columns
) {
    const int lane = threadIdx.x % 32;
    for (int w = 0; w < 2 * TILES; w++) {
        for (int n = 0; n < VECTORS; n++) {
            const float* pair = &sum[n][w / 2][w % 2 * 2];
            tile_smem[at(row + 8 * w + lane / 4, n)].x[lane % 4] = Half::round_pair(pair[0] * factor, pair[1] * factor);
        }
    }
    store_rows<16 * TILES>(matrix, row_stride, tile_smem, row, first, end, columns);
}
