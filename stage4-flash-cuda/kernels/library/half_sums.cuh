// The gradient of a tile of scores in shared memory, and its product with the keys, which is added
// to the sums of dq.

#pragma once

#include "half_products.cuh"

constexpr int PAIRS = 2;                      // of warps, which share keys
constexpr int TILES = BLOCK_KV / PAIRS / 16;  // of 16 keys, of a pair
constexpr int Q_TILES = BLOCK_Q / 16;
constexpr int CHUNK = HEAD_DIM > 64 && VECTORS % 4 == 0 ? 2 : 1;  // times 16 columns of dq are a warp's at a time
// Floats of a row of sums: the 8 rows to which a warp adds are 8 banks apart, because L1 serves a
// request for device memory as one for shared memory.
constexpr int ROW_OF_SUMS = (VECTORS * 8 + 23) / 32 * 32 + 8;
constexpr int HIDDEN = 1000;                  // in place of an exponent
static_assert(THREADS == 64 * PAIRS, "two warps each");

// Of a pair: fragments of 16 queries x 16 keys.
using Fragments = Vector[Q_TILES][TILES][32];

// Stores a fragment a of 16 keys x 16 queries as four tiles of 8 rows, which ldmatrix reads.
__device__ __forceinline__ void store_rows_of_tiles(Vector (&tiles_smem)[32], const unsigned (&a)[4], unsigned lane) {
    for (int e = 0; e < 4; e++) {
        tiles_smem[8 * e + lane / 4].x[lane % 4] = a[e];
    }
}

// sums += ds k, of `rows` queries and all keys of the block. Of each 64 * CHUNK columns a warp has
// 16 * CHUNK.
__device__ __forceinline__ void add_products(
    float* sums,                      // [rows][ROW_OF_SUMS], in device memory
    const Fragments* fragments_smem,  // ds^T of each pair, as store_rows_of_tiles stores it
    const int* exponents,             // of each pair
    unsigned k_lane,                  // where the lane reads its first fragment of k
    int rows
) {
    const unsigned lane = lane_anew();
    // The pair of smaller values first: then what is there is scaled down for the other, never up.
    const int first_pair = exponents[0] < exponents[1] ? 1 : 0;
#pragma unroll 1
    for (int n = thread_anew() / 32 * 2 * CHUNK; n < VECTORS; n += 8 * CHUNK) {
        float product[2 * CHUNK][Q_TILES][4] = {};
        int exponent = HIDDEN;
#pragma unroll 1
        for (int x = 0; x < PAIRS; x++) {
            const int pair = first_pair ^ x;
            if (exponents[pair] == HIDDEN) {
                continue;
            }
            if (exponent != HIDDEN && exponent != exponents[pair]) {
                const float factor = power_of_2(max(exponents[pair] - exponent, -126));
#pragma unroll
                for (int e = 0; e < 8 * CHUNK * Q_TILES; e++) {
                    product[e / 4 / Q_TILES][e / 4 % Q_TILES][e % 4] *= factor;
                }
            }
            exponent = exponents[pair];
            const unsigned ds_lane = shared_address(&fragments_smem[pair][0][0][lane]);
#pragma unroll
            for (int m = 0; m < TILES; m++) {
                unsigned a_reg[Q_TILES][4];  // 16 queries x 16 keys
                for (int j = 0; j < Q_TILES; j++) {
                    unsigned d[4];
                    ldmatrix_x4_trans(d, ds_lane + (j * TILES + m) * 512);
                    a_reg[j][0] = d[0];
                    a_reg[j][1] = d[2];
                    a_reg[j][2] = d[1];
                    a_reg[j][3] = d[3];
                }
#pragma unroll
                for (int c = 0; c < CHUNK; c++) {
                    unsigned b_reg[4];  // 16 keys x 16 columns
                    ldmatrix_x4_trans(b_reg, behind(k_lane, (pair * TILES + m) * 16, n + 2 * c));
                    for (int j = 0; j < Q_TILES; j++) {
                        Half::mma_m16n8k16(product[2 * c][j], a_reg[j], b_reg[0], b_reg[1], product[2 * c][j]);
                        Half::mma_m16n8k16(product[2 * c + 1][j], a_reg[j], b_reg[2], b_reg[3], product[2 * c + 1][j]);
                    }
                }
            }
        }
        const float factor = exponent == HIDDEN ? 0.0f : power_of_2(-exponent) / UNIT;
        float* own = sums + lane / 4 * ROW_OF_SUMS + n * 8 + lane % 4 * 2;
#pragma unroll
        for (int e = 0; e < 4 * CHUNK * Q_TILES; e++) {
            const int row = e % (2 * Q_TILES) * 8;
            const float* value = &product[e / 2 / Q_TILES][e / 2 % Q_TILES][e % 2 * 2];
            if (row + lane / 4 < rows) {
                float* sum = own + row * ROW_OF_SUMS + e / 2 / Q_TILES * 8;
                atomicAdd(sum, value[0] * factor);
                atomicAdd(sum + 1, value[1] * factor);
            }
        }
    }
}
