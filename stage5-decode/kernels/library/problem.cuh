// Sizes, strides and options of a launch. Every decode kernel includes it.

#pragma once

struct Strides {  // in elements; columns are contiguous
    long long batch, head, row;
};

struct Cache {
    int kv_heads;   // H_kv
    int max_seq;    // tokens that a sequence can have
    int head_dim;   // D
    int columns;    // pages that a sequence can have, if the cache is paged
    int page_size;  // tokens of a page, if the cache is paged
};

// ANCHOR: problem
// Passed by value; `Problem` in src/library/problem.rs is the same struct.
struct Problem {
    Strides q;      // of q [B, H, nq, D]
    Strides o;      // of o [B, H, nq, D], or of partial outputs [B, H, nq, splits, D]
    Cache cache;
    int heads;      // H
    int group;      // heads of q that share one head of k and v
    int nq;         // queries: the last nq tokens of each sequence
    int splits;     // parts of a sequence
    int window;     // keys before its own that a query sees
    float scale;    // of the scores
};
// ANCHOR_END: problem

// Keys [begin, end).
struct Keys {
    int begin, end;
};

// The tokens of sequence b. What is out of range is clamped: the host does not see these numbers.
__device__ __forceinline__ int length_of(const int* lengths, int b, const Problem& problem) {
    return max(0, min(lengths[b], problem.cache.max_seq));
}

// ANCHOR: visible
// The keys that queries [first, last] of a sequence of this length see. Query i is token length -
// nq + i; it sees itself and the `window` tokens before. Without a key, end <= begin.
__device__ __forceinline__ Keys visible(int first, int last, int length, const Problem& problem) {
    const int own = length - problem.nq;
    return {max(0, own + first - problem.window), own + last + 1};
}
// ANCHOR_END: visible

// ANCHOR: split
// Part `split` of `splits` parts of equal size.
__device__ __forceinline__ Keys part(Keys keys, int split, int splits) {
    const int size = (max(0, keys.end - keys.begin) + splits - 1) / splits;
    const int begin = keys.begin + split * size;
    return {begin, min(keys.end, begin + size)};
}
// ANCHOR_END: split
