// Scores outside of the band of a causal mask or a window, or behind the last key, in the
// accumulators of tensor cores: half_scores.cuh says which lane has which score. Without an
// additive mask this is all that hides a score, and no score has to be scaled first.

#pragma once

#include "mask.cuh"

// Sets the scores of hidden keys to -inf: of 16 queries from `i` on and 8 N keys from `j` on.
template <int N>
__device__ __forceinline__ void hide_scores(float (&score)[N][4], const Mask& masks, int i, int j) {
    const int key = j + threadIdx.x % 4 * 2;  // the lane's first one
#pragma unroll
    for (int w = 0; w < 2; w++) {
        const int query = i + threadIdx.x % 32 / 4 + 8 * w;
        // The query sees the keys of [begin, end).
        const int begin = max(0, query + masks.first_diagonal);
        const int end = query < masks.nq ? min(masks.keys, query + masks.last_diagonal + 1) : begin;
        const unsigned from_begin = key - begin;
        const unsigned seen = max(0, end - begin);
#pragma unroll
        for (int e = 0; e < 2 * N; e++) {
            float& s = score[e / 2][w * 2 + e % 2];
            s = from_begin + (e / 2 * 8 + e % 2) < seen ? s : -INFINITY;
        }
    }
}
