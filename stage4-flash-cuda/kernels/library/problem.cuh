// Sizes, strides and masks of a launch, and the tile of queries of a block.

#pragma once

#include "stage2-naive-cuda/philox.cuh"

#ifndef DROPOUT
#define DROPOUT 0
#endif

struct Strides {  // in elements; columns are contiguous
    long long batch, head, row;
};

// ANCHOR: problem
// Passed by value; `Problem` in src/library/problem.rs is the same struct.
struct Problem {
    Strides q;            // of q [B, H, nq, D]
    Strides k;            // of k [B, H / group, nk, D]
    Strides v;            // of v [B, H / group, nk, D]
    Strides o;            // of o [B, H, nq, D]
    Strides mask;         // of the additive mask [B, H, nq, nk]; 0 along an axis that is repeated
    Strides blocks;       // of the block mask [B, H, ceil(nq / 64), words of 32 blocks]; 0 along an axis that is repeated
    int heads;            // H
    int group;            // heads of q that share one head of k and v
    int nq, nk;
    int head_dim;         // D, at most HEAD_DIM
    int first_diagonal;   // of the band of diagonals j - i that causal mask and window let through
    int last_diagonal;
    float scale;          // of the scores
#if DROPOUT
    Dropout dropout;      // of the weights; other kernels take what is before it
#endif
};
// ANCHOR_END: problem

// The query tile of a block. Tiles of one head are neighbours, so that blocks that run together
// share k and v in the L2 cache. The last rows, which see the most keys under a causal mask, come
// first: a short block fills a gap at the end better than a long one.
struct QueryTile {
    int batch, head;
    int first;  // the first query
    int end;    // one past the last query, at most nq
};

template <int ROWS>
__device__ __forceinline__ QueryTile query_tile(const Problem& problem, unsigned block) {
    const int tiles = (problem.nq + ROWS - 1) / ROWS;
    const int matrix = block / tiles;
    const int first = (tiles - 1 - static_cast<int>(block % tiles)) * ROWS;
    return {matrix / problem.heads, matrix % problem.heads, first, min(first + ROWS, problem.nq)};
}

// The matrix of one batch and head.
template <typename T>
__device__ __forceinline__ T* matrix_of(T* tensor, const Strides& strides, int batch, int head) {
    return tensor + batch * strides.batch + head * strides.head;
}
