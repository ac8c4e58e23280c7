// Dropout of weights. A kernel has it if it is compiled with DROPOUT=1; in others nothing of this
// is left.

#pragma once

#include "problem.cuh"

// What is dropped: nothing in a kernel without dropout.
__device__ __forceinline__ Dropout dropout_of(const Problem& problem) {
#if DROPOUT
    return problem.dropout;
#else
    return {0, 0, 0, 1.0f};
#endif
}

// The number of a head among those of all sequences.
__device__ __forceinline__ long long number_of(const Problem& problem, int batch, int head) {
    return static_cast<long long>(batch) * problem.heads + head;
}

// Bit e says whether score e of a thread is kept; kept(e) says so of WIDTH scores from e on. In a
// loop that is not unrolled, because the generator is long, and a bit of a register needs no index.
template <int SCORES, int WIDTH, typename F>
__device__ __forceinline__ unsigned long long kept_scores(F kept) {
    static_assert(SCORES <= 64 && SCORES % WIDTH == 0, "a bit for each score");
    unsigned long long bits = ~0ull;
    if constexpr (DROPOUT) {
        bits = 0;
#pragma unroll 1
        for (int e = 0; e < SCORES; e += WIDTH) {
            bits |= static_cast<unsigned long long>(kept(e)) << e;
        }
    }
    return bits;
}

// Sets the weights that are dropped to 0, four neighbouring keys at a time: in rows ty + TY * r of
// a tile in shared memory that begins at query i and key j. The TX lanes tx that share a row are of
// one warp, and have stored the row.
template <int ROWS, int TY, int TX, int COLUMNS, int STRIDE>
__device__ __forceinline__ void drop_weights(
    float* weights_smem, const Problem& problem, int batch, int head, int i, int j, int tx, int ty
) {
    if constexpr (DROPOUT) {
        const Dropout dropout = dropout_of(problem);
        constexpr int QUADS = COLUMNS / 4;  // of a row
        struct alignas(16) Quad {
            float x[4];
        };
#pragma unroll 1
        for (int e = tx; e < ROWS * QUADS; e += TX) {
            const int row = ty + TY * (e / QUADS);
            const unsigned kept = kept_keys(dropout, number_of(problem, batch, head), i + row, j / 4 + e % QUADS);
            Quad& quad = *reinterpret_cast<Quad*>(weights_smem + row * STRIDE + e % QUADS * 4);
#pragma unroll
            for (int w = 0; w < 4; w++) {
                quad.x[w] = kept >> w & 1 ? quad.x[w] : 0.0f;
            }
        }
        __syncwarp();  // so that no lane reads a row before the lanes that share it have dropped their parts
    }
}
