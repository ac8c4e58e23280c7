// Swizzled tiles of the backward kernels on tensor cores: copies, products, and the way out.
//
// A warp has 16 TILES rows of a matrix, in tiles of 16. Lane 4 g + t has rows 16 m + g and
// 16 m + g + 8 of each tile m, shared with 3 neighbours; mma.cuh says which columns. A tile lies
// in shared memory as in rung 5: vector c of row r at place c ^ r % 8 of its row. As in rung 7 a
// lane computes the address of its first fragment once, a step of columns flips bits of it, and a
// step of 16 rows adds a constant.

#pragma once

#include "mma.cuh"

struct alignas(16) Vector {
    unsigned x[4];  // 8 f16
};

constexpr int VECTORS = HEAD_DIM / 8;              // vectors of a row
constexpr int ROW = HEAD_DIM * 2;                  // bytes of a row
constexpr int PLACES = VECTORS < 8 ? VECTORS : 8;  // vectors of a row that swap places
constexpr float LOG2_E = 1.44269504f;
// p and ds are rounded to f16 as multiples of 1 / UNIT, and the sums of their products are divided
// by UNIT in f32.
constexpr float UNIT = 16.0f;
constexpr float UNIT_LOG2 = 4.0f;
static_assert(HEAD_DIM % 16 == 0 && BLOCK_Q % 16 == 0 && BLOCK_KV % 16 == 0, "whole tiles of mma.sync");
static_assert(THREADS % VECTORS == 0 && THREADS / VECTORS % 8 == 0, "a thread copies vectors of one column and place");

// The products of two pairs of f16, rounded to f16.
__device__ __forceinline__ unsigned mul_rn_f16x2(unsigned a, unsigned b) {
    unsigned d;
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
    return d;
}

// The place of a vector of a row. Rows shorter than 128 bytes share their banks with
// 8 / PLACES - 1 others.
__device__ __forceinline__ int at(int row, int vector) {
    return row * VECTORS + (vector ^ row * PLACES / 8 % PLACES);
}

// Where this lane reads its first fragment of 16 x 16 from row `row` on: as a, as b transposed (16
// columns of b are 16 rows of the tile), or as b, by ldmatrix_x4_trans.
__device__ __forceinline__ unsigned a_lane(const Vector* tile_smem, int row) {
    const int lane = threadIdx.x % 32;
    return shared_address(&tile_smem[at(row + lane % 16, lane / 16)]);
}
__device__ __forceinline__ unsigned bt_lane(const Vector* tile_smem) {
    const int lane = threadIdx.x % 32;
    return shared_address(&tile_smem[at(lane / 16 * 8 + lane % 8, lane / 8 % 2)]);
}
__device__ __forceinline__ unsigned b_lane(const Vector* tile_smem) {
    return a_lane(tile_smem, 0);
}

// Starts the copy of N rows of a packed matrix, from row `first` on; those from row `end` on become
// zeros. One group.
template <int N>
__device__ __forceinline__ void copy_tile(Vector* tile_smem, const Vector* matrix, int first, int end) {
    const int row = threadIdx.x / VECTORS;
    const Vector* source = matrix + static_cast<long long>(first) * VECTORS + threadIdx.x;
    const unsigned target = shared_address(&tile_smem[at(row, threadIdx.x % VECTORS)]);
#pragma unroll
    for (int r = 0; r < N; r += THREADS / VECTORS) {
        if (N % (THREADS / VECTORS) == 0 || row + r < N) {
            cp_async_cg_shared_global_16(target + r * ROW, source + r * VECTORS, first + row + r < end ? 16 : 0);
        }
    }
    cp_async_commit_group();
}

// product += a b^T: this warp's rows of a, from A bytes behind `a` on, by N rows of b, from B bytes
// behind `b` on. Columns are those of D.
template <int N, int TILES, int A = 0, int B = 0>
__device__ __forceinline__ void multiply(float (&product)[N / 8][TILES][4], unsigned a, unsigned b) {
#pragma unroll 4
    for (int c = 0; c < VECTORS; c += 2) {
        unsigned a_reg[TILES][4];  // tiles of 16 rows of a x 16 columns
        for (int m = 0; m < TILES; m++) {
            ldmatrix_x4(a_reg[m], (a ^ c * 16) + 16 * m * ROW + A);
        }
        for (int n = 0; n < N / 8; n += 2) {
            unsigned b_reg[4];  // 16 rows of b x 16 columns: b0 and b1 of 8 rows, then of the next 8
            ldmatrix_x4(b_reg, (b ^ c * 16) + 8 * n * ROW + B);
            for (int m = 0; m < TILES; m++) {
                mma_m16n8k16(product[n][m], a_reg[m], b_reg[0], b_reg[1], product[n][m]);
                mma_m16n8k16(product[n + 1][m], a_reg[m], b_reg[2], b_reg[3], product[n + 1][m]);
            }
        }
    }
}

// The fragments a of 16 columns of a product, from column 8 n on, rounded to f16.
template <int N, int TILES>
__device__ __forceinline__ void round_columns(
    unsigned (&a)[TILES][4], const float (&product)[N][TILES][4], int n
) {
    for (int m = 0; m < TILES; m++) {
        for (int e = 0; e < 4; e++) {
            const float* pair = &product[n + e / 2][m][e % 2 * 2];
            a[m][e] = cvt_rn_f16x2_f32(pair[0], pair[1]);
        }
    }
}

// a = f16(a * f16(product)): p becomes ds, where the product is dp - delta.
template <int N, int TILES>
__device__ __forceinline__ void round_ds(unsigned (&a)[TILES][4], const float (&product)[N][TILES][4], int n) {
    unsigned factor[TILES][4];
    round_columns(factor, product, n);
    for (int m = 0; m < TILES; m++) {
        for (int e = 0; e < 4; e++) {
            a[m][e] = mul_rn_f16x2(a[m][e], factor[m][e]);
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
        ldmatrix_x4_trans(b_reg, (b ^ n * 16) + row * ROW);
        for (int m = 0; m < TILES; m++) {
            mma_m16n8k16(sum[n][m], a[m], b_reg[0], b_reg[1], sum[n][m]);
            mma_m16n8k16(sum[n + 1][m], a[m], b_reg[2], b_reg[3], sum[n + 1][m]);
        }
    }
}

// Stores factor * sum in rows [first, end) of a packed matrix, through rows of a tile from `row` on
// that no other warp reads any more.
template <int TILES>
__device__ __forceinline__ void store_rows(
    Vector* matrix, Vector* tile_smem, const float (&sum)[VECTORS][TILES][4], float factor, int row, int first, int end
) {
    const int lane = threadIdx.x % 32;
    for (int w = 0; w < 2 * TILES; w++) {
        for (int n = 0; n < VECTORS; n++) {
            const float* pair = &sum[n][w / 2][w % 2 * 2];
            tile_smem[at(row + 8 * w + lane / 4, n)].x[lane % 4] = cvt_rn_f16x2_f32(pair[0] * factor, pair[1] * factor);
        }
    }
    __syncwarp();  // so that no lane reads a row before the lanes that share it have stored their parts
    for (int x = lane; x < 16 * TILES * VECTORS; x += 32) {
        const int i = first + row + x / VECTORS;
        if (i < end) {
            matrix[static_cast<long long>(i) * VECTORS + x % VECTORS] = tile_smem[at(row + x / VECTORS, x % VECTORS)];
        }
    }
}
