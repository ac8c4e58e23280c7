// Vectors of floats that one instruction moves, and tiles copied by them.

#pragma once

#include "load_tile.cuh"

// WIDTH neighbouring floats, for WIDTH 1, 2 or 4. Their address is a multiple of their size.
template <int WIDTH>
struct alignas(4 * WIDTH) Vector {
    float x[WIDTH];
};

template <int WIDTH>
__device__ __forceinline__ Vector<WIDTH> vector_at(const float* address) {
    return *reinterpret_cast<const Vector<WIDTH>*>(address);
}

// Copies rows [first, first + ROWS) of a matrix of HEAD_DIM columns that ends before row `end`; columns are filled up with
// zeros to a multiple of 4. Copies 16 bytes at a time where the matrix is aligned so, which all threads see alike.
template <int ROWS, int STRIDE>
__device__ __forceinline__ void load_rows(
    float* tile_smem,     // [ROWS][STRIDE]
    const float* matrix,  // [rows, HEAD_DIM] f32
    long long row_stride,
    int first, int end
) {
    constexpr int CHUNKS = (HEAD_DIM + 3) / 4;  // of a row
    if constexpr (HEAD_DIM % 4 == 0) {
        if (reinterpret_cast<unsigned long long>(matrix) % 16 == 0 && row_stride % 4 == 0) {
#pragma unroll 4
            for (int chunk = threadIdx.x; chunk < ROWS * CHUNKS; chunk += THREADS) {
                const int row = chunk / CHUNKS;
                const int x = chunk % CHUNKS * 4;
                const Vector<4> zeros = {};
                const Vector<4> value = first + row < end ? vector_at<4>(matrix + (first + row) * row_stride + x) : zeros;
                *reinterpret_cast<Vector<4>*>(tile_smem + row * STRIDE + x) = value;
            }
            return;
        }
    }
    load_tile<ROWS, 4 * CHUNKS, STRIDE>(tile_smem, matrix, row_stride, first, end, 0);
}

// Copies rows [first, end) of shared memory to a matrix of HEAD_DIM columns, neighbouring threads neighbouring columns.
template <int STRIDE>
__device__ __forceinline__ void store_rows(
    const float* tile_smem,  // [end - first][STRIDE]
    float* matrix,           // [rows, HEAD_DIM] f32
    long long row_stride,
    int first, int end
) {
    for (int element = threadIdx.x; element < (end - first) * HEAD_DIM; element += THREADS) {
        const int row = element / HEAD_DIM;
        const int x = element % HEAD_DIM;
        matrix[(first + row) * row_stride + x] = tile_smem[row * STRIDE + x];
    }
}
