// Rows of a matrix of 16-bit elements in shared memory, and the copies that fill them.
//
// The 8 rows that ldmatrix reads lie in different banks, for any head dimension: a row is an odd
// number of vectors of 16 bytes long, or a multiple of 8 vectors, which swap places in each group
// of 8. Columns from D to the next multiple of 16 are zeros, and change no sum.

#pragma once

#include "half.cuh"

using Half = ELEMENT;

struct alignas(16) Vector {
    unsigned x[4];  // 8 elements
};

constexpr int VECTORS = (HEAD_DIM + 15) / 16 * 2;  // vectors of a row that are multiplied
constexpr bool SWIZZLED = VECTORS % 8 == 0;
constexpr int STRIDE = SWIZZLED ? VECTORS : VECTORS | 1;  // vectors from row to row
constexpr int ROW = STRIDE * 16;  // bytes
// Threads that copy a row.
constexpr int LANES = VECTORS <= 2 ? 2 : VECTORS <= 4 ? 4 : VECTORS <= 8 ? 8 : VECTORS <= 16 ? 16 : 32;
constexpr int STEP = THREADS / LANES;  // rows that the threads copy at a time

// The place of a vector of a row.
__device__ __forceinline__ int at(int row, int vector) {
    return row * STRIDE + (SWIZZLED ? vector ^ row % 8 : vector);
}

// The address of the vector that lies `rows` rows, a multiple of 8, behind a vector and has a
// number larger by `vectors`: where the own number has a bit, `vectors` has none.
__device__ __forceinline__ unsigned behind(unsigned vector_smem, int rows, int vectors) {
    const int swapped = SWIZZLED ? vectors % 8 : 0;
    return (vector_smem ^ swapped * 16) + (vectors - swapped) * 16 + rows * ROW;
}

// True if all rows of a matrix are vectors.
__device__ bool is_aligned(const Half* matrix, long long row_stride, int columns) {
    return reinterpret_cast<unsigned long long>(matrix) % 16 == 0 && row_stride % 8 == 0 && columns % 8 == 0;
}

// Starts the copies of one vector of every STEP rows, from `source` on, to rows [FIRST, END) behind
// `target_smem`.
template <int FIRST, int END>
__device__ __forceinline__ void copy_vectors(unsigned target_smem, const Half* source, long long step) {
    if constexpr (FIRST < END) {
        cp_async_cg_shared_global_16<FIRST * ROW>(SWIZZLED ? target_smem ^ FIRST % 8 * 16 : target_smem, source);
        copy_vectors<FIRST + STEP, END>(target_smem, source + step, step);
    }
}

// Rows of tiles in shared memory, and the part of each tile that this thread copies: one vector of
// every STEP-th row from `row` on.
struct Rows {
    Vector* rows_smem;
    int columns;   // D: behind it are zeros
    bool aligned;  // all matrices consist of vectors
    int row;
    int vector;
    unsigned own_smem;  // the address of this thread's first vector

    __device__ Rows(Vector* rows_smem, int columns, bool aligned, unsigned thread)
        : rows_smem(rows_smem), columns(columns), aligned(aligned), row(thread / LANES), vector(thread % LANES),
          own_smem(shared_address(&rows_smem[at(row, vector)])) {}

    // Clears the columns behind the last of so many rows, before the first copy.
    __device__ void clear(int count) const {
        if (columns < VECTORS * 8) {
            for (int x = threadIdx.x; x < count * VECTORS; x += THREADS) {
                if (x % VECTORS * 8 >= columns) {
                    rows_smem[at(x / VECTORS, x % VECTORS)] = {};
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
            const Half* source = matrix + (first + row) * row_stride + vector * 8;
            if (vector * 8 >= columns) {
                // The thread has no vector.
            } else if (first + ROWS <= end) {
                copy_vectors<FIRST, FIRST + ROWS>(own_smem, source, STEP * row_stride);
            } else {
#pragma unroll 1
                for (int r = 0; r < ROWS; r += STEP, source += STEP * row_stride) {
                    const bool inside = first + row + r < end;
                    const unsigned target_smem = (SWIZZLED ? own_smem ^ r % 8 * 16 : own_smem) + (FIRST + r) * ROW;
                    cp_async_cg_shared_global_16(target_smem, inside ? source : matrix, inside ? 16 : 0);
                }
            }
        } else {
#pragma unroll 1
            for (int x = threadIdx.x; x < ROWS * VECTORS * 8; x += THREADS) {
                const int i = x / (VECTORS * 8);
                const int column = x % (VECTORS * 8);
                reinterpret_cast<Half*>(rows_smem + at(FIRST + i, column / 8))[column % 8] =
                    first + i < end && column < columns ? matrix[(first + i) * row_stride + column] : Half{};
            }
        }
        cp_async_commit_group();
    }
};

// Stores COUNT rows of a tile in shared memory, from row `row` on, which this warp has written, as
// rows `first` + `row` and on of a matrix that ends before row `end`.
template <int COUNT>
__device__ __forceinline__ void store_rows(
    Half* matrix, long long row_stride, const Vector* tile_smem, int row, int first, int end, int columns
) {
    __syncwarp();  // so that no lane reads a row before the lanes that share it have stored their parts
    const bool aligned = is_aligned(matrix, row_stride, columns);
    const int width = aligned ? 8 : 1;
    for (int x = threadIdx.x % 32; x < COUNT * (columns / width); x += 32) {
        const int i = row + x / (columns / width);
        const int column = x % (columns / width) * width;
        if (first + i < end) {
            Half* target = matrix + (first + i) * row_stride + column;
            const Vector* source_smem = tile_smem + at(i, column / 8);
            if (aligned) {
                *reinterpret_cast<Vector*>(target) = *source_smem;
            } else {
                *target = reinterpret_cast<const Half*>(source_smem)[column % 8];
            }
        }
    }
}
