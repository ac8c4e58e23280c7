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

// True if all rows of a matrix are vectors.
__device__ bool is_aligned(const Half* matrix, long long row_stride, int columns) {
    return reinterpret_cast<unsigned long long>(matrix) % 16 == 0 && row_stride % 8 == 0 && columns % 8 == 0;
}

// Starts the copies of one vector of every STEP rows, from `source` on, to rows [FIRST, END) behind
// `target_smem`.
template <int FIRST, int END>
__device__ __forceinline__ void copy_vectors(unsigned target_smem, const Half* source, long long step) {
    if constexpr (FIRST < END) {
        cp_async_cg_shared_global_16<FIRST * ROW>(target_smem, source);
        copy_vectors<FIRST + STEP, END>(target_smem, source + step, step);
    }
}

// Rows of tiles in shared memory, and the part of each tile that this thread copies: vector `chunk`
// of every STEP-th row from `row` on.
struct Rows {
    Vector* rows_smem;
    int columns;   // D: behind it are zeros
    bool aligned;  // all matrices consist of vectors
    int row;
    int chunk;
    unsigned own_smem;  // the address of this thread's first vector

    __device__ Rows(Vector* rows_smem, int count, int columns, bool aligned)
        : rows_smem(rows_smem), columns(columns), aligned(aligned), row(threadIdx.x / LANES), chunk(threadIdx.x % LANES),
          own_smem(shared_address(&rows_smem[row * STRIDE + chunk])) {
        if (columns < CHUNKS * 8) {
            for (int x = threadIdx.x; x < count * CHUNKS; x += THREADS) {
                if (x % CHUNKS * 8 >= columns) {
                    rows_smem[x / CHUNKS * STRIDE + x % CHUNKS] = {};
                }
            }
            __syncthreads();  // so that no thread copies elements of a vector before it is cleared
        }
    }

    // Copies rows [first, first + ROWS) of a matrix that ends before row `end` to rows from FIRST
    // on. Rows behind the end are zeros. One group. If the matrices are not aligned, the elements
    // are there when the function returns.
    template <int FIRST, int ROWS>
    __device__ __forceinline__ void copy(const Half* matrix, long long row_stride, int first, int end) const {
        static_assert(ROWS % STEP == 0, "threads copy equally many vectors");
        if (aligned) {
            const Half* source = matrix + (first + row) * row_stride + chunk * 8;
            if (chunk * 8 >= columns) {
                // The thread has no vector.
            } else if (first + ROWS <= end) {
                copy_vectors<FIRST, FIRST + ROWS>(own_smem, source, STEP * row_stride);
            } else {
#pragma unroll 1
                for (int r = 0; r < ROWS; r += STEP, source += STEP * row_stride) {
                    const bool inside = first + row + r < end;
                    cp_async_cg_shared_global_16(own_smem + (FIRST + r) * ROW, inside ? source : matrix, inside ? 16 : 0);
                }
            }
        } else {
#pragma unroll 1
            for (int x = threadIdx.x; x < ROWS * CHUNKS * 8; x += THREADS) {
                const int i = x / (CHUNKS * 8);
                const int column = x % (CHUNKS * 8);
                reinterpret_cast<Half*>(rows_smem + (FIRST + i) * STRIDE)[column] =
                    first + i < end && column < columns ? matrix[(first + i) * row_stride + column] : Half{};
            }
        }
        cp_async_commit_group();
    }
};
