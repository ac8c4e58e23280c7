// Rows of a matrix of 16-bit elements in shared memory, and the copies that fill them.
//
// A row is an odd number of vectors of 16 bytes long: the 8 rows that ldmatrix reads lie in
// different banks, for any head dimension. Columns from D to the next multiple of 16 are zeros,
// and change no sum.

#pragma once

#include "half.cuh"

using Half = ELEMENT;

struct alignas(16) Vector {
    unsigned x[4];  // 8 elements
};

constexpr int CHUNKS = (HEAD_DIM + 15) / 16 * 2;  // vectors of a row that are multiplied
constexpr int STRIDE = CHUNKS | 1;                // vectors from row to row
constexpr int ROW = STRIDE * 16;                  // bytes
// Threads that copy a row.
constexpr int LANES = CHUNKS <= 2 ? 2 : CHUNKS <= 4 ? 4 : CHUNKS <= 8 ? 8 : CHUNKS <= 16 ? 16 : 32;
constexpr int STEP = THREADS / LANES;             // rows that the threads copy at a time

// Whether all rows of a matrix are vectors.
__device__ bool is_aligned(const Half* matrix, long long row_stride, int columns) {
    return reinterpret_cast<unsigned long long>(matrix) % 16 == 0 && row_stride % 8 == 0 && columns % 8 == 0;
}

// Starts the copy of a thread's vectors of ROWS rows: one of every STEP rows, the first from
// `source` to `target_smem`. `bytes` tells how many of a vector are read; the rest are zeros.
template <int ROWS, typename Bytes>
__device__ void copy_vectors(unsigned target_smem, const Half* source, long long step, Bytes bytes) {
#pragma unroll
    for (int r = 0; r < ROWS; r += STEP) {
        cp_async_cg_shared_global_16(target_smem + r * ROW, source, bytes(r));
        source += step;
    }
}

// Copies rows [first, first + ROWS) and the first `columns` columns of a matrix that ends before
// row `end`; all else is zeros. One group. By vectors where the matrix is aligned so; else by
// elements, which are there when the function returns.
template <int ROWS>
__device__ void copy_rows(
    Vector* tile_smem, const Half* matrix, long long row_stride, int first, int end, int columns
) {
    static_assert(ROWS % STEP == 0, "threads copy equally many vectors");
    if (is_aligned(matrix, row_stride, columns)) {
        const int row = threadIdx.x / LANES;
        const int chunk = threadIdx.x % LANES;
        const unsigned target = shared_address(&tile_smem[row * STRIDE + chunk]);
        const Half* source = matrix + (first + row) * row_stride + chunk * 8;
        const int bytes = chunk * 8 < columns ? 16 : 0;
        if (LANES > CHUNKS && chunk >= CHUNKS) {
            // The thread has no vector.
        } else if (first + ROWS <= end) {
            copy_vectors<ROWS>(target, source, STEP * row_stride, [=](int) { return bytes; });
        } else {
            const auto inside = [=](int r) { return first + row + r < end ? bytes : 0; };
            copy_vectors<ROWS>(target, source, STEP * row_stride, inside);
        }
    } else {
#pragma unroll 1
        for (int x = threadIdx.x; x < ROWS * CHUNKS * 8; x += THREADS) {
            const int row = first + x / (CHUNKS * 8);
            const int column = x % (CHUNKS * 8);
            reinterpret_cast<Half*>(tile_smem + x / (CHUNKS * 8) * STRIDE)[column] =
                row < end && column < columns ? matrix[row * row_stride + column] : Half{};
        }
    }
    cp_async_commit_group();
}
