// Masks of one batch and head: which tiles can be skipped, and which scores are hidden.
//
// Causal mask and window are one band of diagonals j - i; a key length cuts off columns; a block
// mask cuts out squares of 64 x 64 scores; an additive mask has a value for every score. `Mask` in
// stage1-reference says the same in Rust.

#pragma once

#include "prelude.cuh"
#include "problem.cuh"

enum class Tile {
    Masked,  // no query sees any of the keys
    Full,    // every query sees all of the keys, and nothing is added to the scores
    Mixed,   // anything else: every score has to be looked at
};

// ANCHOR: mask
struct Mask {
    static constexpr int BLOCK = 64;  // queries and keys of a block of the block mask

    const float* additive;   // [nq, nk] f32, or null
    long long additive_row;  // its row stride
    const unsigned* blocks;  // [ceil(nq / 64), words] u32, or null: bit c % 32 of word c / 32 is block c of a row
    long long blocks_row;    // its row stride
    int first_diagonal, last_diagonal;
    int nq;
    int keys;                // of this sequence: rows of k and v from here on are never read

    __device__ Mask(const float* mask, const int* key_lengths, const unsigned* block_mask, const Problem& problem,
                    int batch, int head)
        : additive(mask == nullptr ? nullptr : matrix_of(mask, problem.mask, batch, head)),
          additive_row(problem.mask.row),
          blocks(block_mask == nullptr ? nullptr : matrix_of(block_mask, problem.blocks, batch, head)),
          blocks_row(problem.blocks.row),
          first_diagonal(problem.first_diagonal),
          last_diagonal(problem.last_diagonal),
          nq(problem.nq),
          // A length from the device cannot be checked by the host: what is
          // out of range is clamped.
          keys(key_lengths == nullptr ? problem.nk : max(0, min(key_lengths[batch], problem.nk))) {}

    // The keys that some query of [first, end) may see lie in [begin_of, end_of).
    __device__ int begin_of(int first) const { return max(0, first + first_diagonal); }
    __device__ int end_of(int end) const { return min(keys, end + last_diagonal); }

    // All queries of [first, end) see the keys of [seen_begin, seen_end), with nothing added to
    // their scores, unless a block mask hides them.
    __device__ int seen_begin(int end) const { return end - 1 + first_diagonal; }
    __device__ int seen_end(int first) const {
        return additive == nullptr ? min(keys, first + last_diagonal + 1) : 0;
    }

    // Whether key j is one of the sequence's, and within the band of query i.
    // Queries from nq on see nothing.
    __device__ bool in_band(int i, int j) const {
        const int diagonal = j - i;
        return i < nq && j < keys && first_diagonal <= diagonal && diagonal <= last_diagonal;
    }

    // Whether the block mask lets query i < nq see key j < nk. Only if there is a block mask.
    __device__ bool in_block(int i, int j) const { return square(i / BLOCK, j / BLOCK); }

    // Classifies the scores of queries [i, i_end) and keys [j, j_end). The result is the same for
    // all threads of a block. A tile of several blocks, some of which are seen, may be called Mixed
    // though the band hides those.
    __device__ Tile tile(int i, int i_end, int j, int j_end) const {
        const int seen_end = min(j_end, keys);
        // A rectangle crosses every diagonal from its lower left corner's to
        // its upper right corner's.
        const int lower_left = j - (i_end - 1);
        const int upper_right = seen_end - 1 - i;
        if (seen_end <= j || lower_left > last_diagonal || upper_right < first_diagonal) {
            return Tile::Masked;
        }
        bool all = additive == nullptr && seen_end == j_end && first_diagonal <= lower_left && upper_right <= last_diagonal;
        bool some = blocks == nullptr;
        if (blocks != nullptr) {
            for (int row = i / BLOCK; row * BLOCK < i_end; row++) {
                for (int column = j / BLOCK; column * BLOCK < seen_end; column++) {
                    const bool seen = square(row, column);
                    some |= seen;
                    all &= seen;
                }
            }
        }
        return !some ? Tile::Masked : all ? Tile::Full : Tile::Mixed;
    }

    // The scaled score of query i and key j after all masks; -inf if the key is hidden.
    __device__ float masked(float score, int i, int j) const {
        if (!in_band(i, j) || (blocks != nullptr && !in_block(i, j))) {
            return -INFINITY;
        }
        return additive == nullptr ? score : biased(score, i, j);
    }

    // The score of query i and key j with what the additive mask adds to it. Only if there is an
    // additive mask.
    __device__ float biased(float score, int i, int j) const {
        const float bias = additive[i * additive_row + j];
        return bias == -INFINITY ? -INFINITY : score + bias;
    }

  private:
    __device__ bool square(int row, int column) const {
        return blocks[row * blocks_row + column / 32] >> column % 32 & 1;
    }
};
// ANCHOR_END: mask
