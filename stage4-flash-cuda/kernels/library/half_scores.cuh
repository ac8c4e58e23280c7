// Masks and dropout of a tile of scores that lies in the accumulators of tensor cores.
//
// Lane 4 g + t has scores s[n][m][e]: of row 16 m + g + 8 (e / 2) and column 8 n + 2 t + e % 2 of
// its warp's part, whose rows are queries, or keys. The queries and the keys of a part lie in one
// square of the block mask.

#pragma once

#include "dropout.cuh"
#include "mask.cuh"

// What the rows of a part are; its columns are the others.
enum class RowsAre { Queries, Keys };

// The scores of queries from `i` on and keys from `j` on, scaled and masked: -inf where the key is
// hidden.
template <RowsAre ROWS, int N, int TILES>
__device__ __forceinline__ void mask_scores(float (&score)[N][TILES][4], const Mask& masks, float scale, int i, int j) {
    constexpr bool OF_KEYS = ROWS == RowsAre::Keys;
    const int g = threadIdx.x % 32 / 4;
    const int t = threadIdx.x % 4;
    const bool seen = i < masks.nq && j < masks.keys && (masks.blocks == nullptr || masks.in_block(i, j));
    // From the lane's first score on.
    const int query = i + (OF_KEYS ? 2 * t : g);
    const int key = j + (OF_KEYS ? g : 2 * t);
    const int queries = seen ? masks.nq - query : 0;
    const int keys = masks.keys - key;
    const unsigned diagonal = key - query - masks.first_diagonal;
    const unsigned last_diagonal = masks.last_diagonal - masks.first_diagonal;
#pragma unroll
    for (int e = 0; e < 4 * N * TILES; e++) {
        const int row = e / 2 % (2 * TILES) * 8;
        const int column = e / 4 / TILES * 8 + e % 2;
        const int later = OF_KEYS ? column : row;  // queries
        const int behind = OF_KEYS ? row : column;  // keys
        float& s = score[e / 4 / TILES][e / 4 % TILES][e % 4];
        s = diagonal + (behind - later) <= last_diagonal && later < queries && behind < keys ? s * scale : -INFINITY;
    }
    if (masks.additive != nullptr) {
        const float* bias = masks.additive + query * masks.additive_row + key;
#pragma unroll
        for (int outer = 0; outer < (OF_KEYS ? 2 * N : 2 * TILES); outer++) {
#pragma unroll
            for (int inner = 0; inner < (OF_KEYS ? 2 * TILES : 2 * N); inner++) {
                const int row = OF_KEYS ? inner : outer;     // of 8, counted
                const int column = OF_KEYS ? outer : inner;  // of 2 in each 8, counted
                float& s = score[column / 2][row / 2][row % 2 * 2 + column % 2];
                if (s != -INFINITY) {
                    const float x = bias[OF_KEYS ? 8 * row : column / 2 * 8 + column % 2];
                    s = x == -INFINITY ? -INFINITY : s + x;
                }
            }
            bias += (OF_KEYS ? outer % 2 == 0 ? 1 : 7 : 8) * masks.additive_row;  // the next query
            asm volatile("" : "+l"(bias));  // opaque: else the compiler keeps an address of each query
        }
    }
}

// Bit e says whether score [e / 4 / TILES][e / 4 % TILES][e % 4] is kept: of queries from `i` on
// and keys from `j` on.
template <int N, int TILES>
__device__ __forceinline__ unsigned long long kept_of_queries(const Problem& problem, int batch, int head, int i, int j) {
    const int g = threadIdx.x % 32 / 4;
    const int t = threadIdx.x % 4;
    const Dropout dropout = dropout_of(problem);
    // Two keys of two rows, 8 apart. Lane t ^ 1 has the other two of the same four keys, so each of
    // them asks for one row.
    return kept_scores<4 * N * TILES, 4>([&](int e) {
        const int query = i + g + e / 4 % TILES * 16 + t % 2 * 8;
        const int quad = (j + e / 4 / TILES * 8 + 2 * t) / 4;
        const unsigned own = kept_keys(dropout, number_of(problem, batch, head), query, quad);
        const unsigned other = __shfl_xor_sync(0xffffffffu, own, 1);
        return t % 2 == 0 ? (own & 3) | (other & 3) << 2 : other >> 2 | (own >> 2) << 2;
    });
}

// The same of a part whose rows are keys from `j` on, and whose columns are queries from `i` on.
template <int N, int TILES>
__device__ __forceinline__ unsigned long long kept_of_keys(const Problem& problem, int batch, int head, int i, int j) {
    const int lane = threadIdx.x % 32;
    const int g = lane / 4;
    const int t = lane % 4;
    const Dropout dropout = dropout_of(problem);
    // Two queries of two keys, 8 apart. The lanes of the same four keys ask for one query and four
    // keys each: for those of score g % 4.
    return kept_scores<4 * N * TILES, 4>([&](int e) {
        const int query = i + e / 4 / TILES * 8 + 2 * t + g % 2;
        const int quad = (j + e / 4 % TILES * 16 + g / 2 % 2 * 8 + g / 4 * 4) / 4;
        const unsigned own = kept_keys(dropout, number_of(problem, batch, head), query, quad);
        unsigned kept = 0;
#pragma unroll
        for (int x = 0; x < 4; x++) {
            kept |= (__shfl_sync(0xffffffffu, own, (lane & 19) | 4 * x) >> g % 4 & 1) << x;
        }
        return kept;
    });
}
