// Tiles of the library's backward kernels: rows in shared memory, the products of a thread, and the
// weights of a tile of scores.
//
// A block owns some rows of k and v, and those of q and dO pass by. A tile of scores has a row for
// each that the block owns, and a column for each that passes by. Of N rows a thread has N / TY,
// ty() + TY * r, and of M columns M / TX, tx() + TX * n. As backward/tile.cuh, with any head
// dimension, strides, element type and mask.

#pragma once

#include "dropout.cuh"
#include "mask.cuh"
#include "vector.cuh"
#include "weights.cuh"

#ifndef ELEMENT
#define ELEMENT float
#endif

constexpr int TX = BLOCK_Q < 16 || BLOCK_KV < 16 ? 8 : 16;  // threads that share a row of scores
constexpr int TY = THREADS / TX;
constexpr int VECTORS = (HEAD_DIM + 3) / 4;         // vectors of a row of a tensor; the last is filled up with zeros
constexpr int STRIDE = 4 * (VECTORS | 1);           // floats: lanes that read a column of vectors read all banks
constexpr int PIECES = (VECTORS + TX - 1) / TX;     // vectors of a row of a thread: tx() + TX * c
constexpr bool RAGGED = VECTORS % TX != 0;          // some threads have a vector less

static_assert(BLOCK_Q % TX == 0 && BLOCK_KV % TX == 0, "every thread has as many columns as the others");
static_assert(BLOCK_Q % TY == 0 && BLOCK_KV % TY == 0, "every thread has as many rows as the others");

// A warp has 32 / TX rows of scores. Lanes i and i ^ 1 have the same row, lanes i and i ^ 2 the
// same column: so a load of 16 bytes, by row or by column, takes 2 wavefronts where others take 4.
__device__ __forceinline__ int tx() {
    return threadIdx.x % 2 + threadIdx.x / 4 % (TX / 2) * 2;
}
__device__ __forceinline__ int ty() {
    return threadIdx.x / 2 % 2 + threadIdx.x / (2 * TX) * 2;
}

// Floats from one row of weights to the next: the rows that a warp stores lie TX banks apart.
template <int COLUMNS>
constexpr int WEIGHTS_STRIDE = COLUMNS | TX;

// product = own * other^T: the dot products of a thread's rows and columns.
template <int ROWS, int COLUMNS>
__device__ __forceinline__ void multiply(float (&product)[ROWS][COLUMNS], const float* own_smem, const float* other_smem) {
    const float* own = own_smem + ty() * STRIDE;
    const float* other = other_smem + tx() * STRIDE;
#pragma unroll
    for (int e = 0; e < ROWS * COLUMNS; e++) {
        product[e / COLUMNS][e % COLUMNS] = 0.0f;
    }
#pragma unroll 2  // 4 would be 1% faster, and the committed PTX 40% larger
    for (int c = 0; c < VECTORS; c++) {
        Vector<4> own_reg[ROWS];
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            own_reg[r] = vector_at<4>(own + TY * r * STRIDE + 4 * c);
        }
#pragma unroll
        for (int n = 0; n < COLUMNS; n++) {
            const Vector<4> other_reg = vector_at<4>(other + TX * n * STRIDE + 4 * c);
#pragma unroll
            for (int e = 0; e < 4 * ROWS; e++) {
                product[e % ROWS][n] += own_reg[e % ROWS].x[e / ROWS] * other_reg.x[e / ROWS];
            }
        }
    }
}

// sum += weights * other: a thread's rows and vectors of the sum. The weights of these rows were
// stored by the thread's own warp.
template <int COLUMNS, int ROWS>
__device__ __forceinline__ void accumulate(Vector<4> (&sum)[ROWS][PIECES], const float* weights_smem, const float* other_smem) {
    const float* weights = weights_smem + ty() * WEIGHTS_STRIDE<COLUMNS>;
    const float* other = other_smem + 4 * tx();
#pragma unroll 2
    for (int j = 0; j < COLUMNS; j += 4) {
        Vector<4> weight_reg[ROWS];
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            weight_reg[r] = vector_at<4>(weights + TY * r * WEIGHTS_STRIDE<COLUMNS> + j);
        }
#pragma unroll
        for (int x = 0; x < 4; x++) {
#pragma unroll
            for (int c = 0; c < PIECES; c++) {
                if (!RAGGED || tx() + TX * c < VECTORS) {
                    const Vector<4> other_reg = vector_at<4>(other + (j + x) * STRIDE + 4 * TX * c);
#pragma unroll
                    for (int e = 0; e < 4 * ROWS; e++) {
                        sum[e / 4][c].x[e % 4] += weight_reg[e / 4].x[x] * other_reg.x[e % 4];
                    }
                }
            }
        }
    }
}

constexpr int ROW_OF_SUMS = 4 * VECTORS;          // floats of a row of the sums of dq
constexpr int QUERIES = BLOCK_Q / TY;             // of a thread, in the products below
constexpr int WIDTH = QUERIES < 4 ? QUERIES : 4;  // of them, neighbours
// Vectors of a row that a thread has at a time: more need registers that it does not have.
constexpr int CHUNK = QUERIES * PIECES > 8 ? (8 + QUERIES - 1) / QUERIES : PIECES;
static_assert(QUERIES % WIDTH == 0 && PIECES % CHUNK == 0, "whole vectors");

// sums += weights^T * keys: of `rows` queries of a tile, by all keys of the block. A thread has
// queries WIDTH * (ty() + TY * u) + w and its vectors of their rows.
__device__ __forceinline__ void add_products(
    float* sums,                // [rows][ROW_OF_SUMS], in device memory
    const float* weights_smem,  // [key][query]
    const float* keys_smem,     // [key][column]
    int rows
) {
    const float* weights = weights_smem + WIDTH * ty();
    const float* keys = keys_smem + 4 * tx();
#pragma unroll 1
    for (int chunk = 0; chunk < PIECES; chunk += CHUNK) {
        if (RAGGED && CHUNK == 1 && tx() + TX * chunk >= VECTORS) {
            continue;  // so that no test stands between the products
        }
        constexpr bool TESTED = RAGGED && CHUNK > 1;
        Vector<4> product[QUERIES][CHUNK] = {};
#pragma unroll 4
        for (int j = 0; j < BLOCK_KV; j++) {
            Vector<WIDTH> weight_reg[QUERIES / WIDTH];
#pragma unroll
            for (int u = 0; u < QUERIES / WIDTH; u++) {
                weight_reg[u] = vector_at<WIDTH>(weights + j * WEIGHTS_STRIDE<BLOCK_Q> + WIDTH * TY * u);
            }
#pragma unroll
            for (int c = 0; c < CHUNK; c++) {
                if (!TESTED || tx() + TX * (chunk + c) < VECTORS) {
                    const Vector<4> key_reg = vector_at<4>(keys + j * STRIDE + 4 * TX * (chunk + c));
#pragma unroll
                    for (int e = 0; e < 4 * QUERIES; e++) {
                        product[e / 4][c].x[e % 4] += weight_reg[e / 4 / WIDTH].x[e / 4 % WIDTH] * key_reg.x[e % 4];
                    }
                }
            }
        }
#pragma unroll
        for (int i = 0; i < QUERIES; i++) {
            const int row = WIDTH * (ty() + TY * (i / WIDTH)) + i % WIDTH;
#pragma unroll
            for (int c = 0; c < CHUNK; c++) {
                const int vector = tx() + TX * (chunk + c);
                if (row < rows && (!TESTED || vector < VECTORS)) {
#pragma unroll
                    for (int x = 0; x < 4; x++) {
                        atomicAdd(sums + row * ROW_OF_SUMS + 4 * vector + x, product[i][c].x[x]);
                    }
                }
            }
        }
    }
}

// Applies masked(score, row, column) to a thread's scores. By way of the thread's own places among
// the weights, because a loop that is not unrolled cannot index registers; unrolled, it would take
// as much code and as many registers as all the rest.
template <int ROWS, int COLUMNS, typename F>
__device__ __forceinline__ void mask_scores(float (&score)[ROWS][COLUMNS], float* weights_smem, F masked) {
    constexpr int WEIGHTS = WEIGHTS_STRIDE<TX * COLUMNS>;
    float* own = weights_smem + ty() * WEIGHTS + tx();
#pragma unroll
    for (int e = 0; e < ROWS * COLUMNS; e++) {
        own[TY * (e / COLUMNS) * WEIGHTS + TX * (e % COLUMNS)] = score[e / COLUMNS][e % COLUMNS];
    }
#pragma unroll 1
    for (int e = 0; e < ROWS * COLUMNS; e++) {
        float& s = own[TY * (e / COLUMNS) * WEIGHTS + TX * (e % COLUMNS)];
        s = masked(s, ty() + TY * (e / COLUMNS), tx() + TX * (e % COLUMNS));
    }
#pragma unroll
    for (int e = 0; e < ROWS * COLUMNS; e++) {
        score[e / COLUMNS][e % COLUMNS] = own[TY * (e / COLUMNS) * WEIGHTS + TX * (e % COLUMNS)];
    }
}

// Bit e says whether score e / COLUMNS, e % COLUMNS of a thread is kept: kept(row, column) says so.
template <int ROWS, int COLUMNS, typename F>
__device__ __forceinline__ unsigned long long kept_scores_of(F kept) {
    return kept_scores<ROWS * COLUMNS, 1>([&](int e) {
        return kept(ty() + TY * (e / COLUMNS), tx() + TX * (e % COLUMNS));
    });
}

// Stores factor * sum in rows [first, end) of a matrix, by way of rows of shared memory that no
// thread reads any more.
template <int ROWS>
__device__ __forceinline__ void store(
    ELEMENT* matrix, long long row_stride, const Vector<4> (&sum)[ROWS][PIECES], float factor, float* rows_smem,
    int first, int end, int columns
) {
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
#pragma unroll
        for (int c = 0; c < PIECES; c++) {
            if (!RAGGED || tx() + TX * c < VECTORS) {
                Vector<4> scaled = sum[r][c];
#pragma unroll
                for (int x = 0; x < 4; x++) {
                    scaled.x[x] *= factor;
                }
                *reinterpret_cast<Vector<4>*>(rows_smem + (ty() + TY * r) * STRIDE + 4 * (tx() + TX * c)) = scaled;
            }
        }
    }
    __syncthreads();  // so that no thread reads a row before every thread has stored its part
    store_rows<STRIDE>(rows_smem, matrix, row_stride, first, end, columns);
}
