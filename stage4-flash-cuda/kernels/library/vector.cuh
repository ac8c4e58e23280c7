// Vector loads and stores of floats, and copies of tiles by them.

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

// The same of elements of 16 bits.
template <int WIDTH, typename T>
__device__ __forceinline__ Vector<WIDTH> vector_at(const T* address) {
    struct alignas(2 * WIDTH) Elements {
        T x[WIDTH];
    };
    const Elements elements = *reinterpret_cast<const Elements*>(address);
    Vector<WIDTH> wide;
#pragma unroll
    for (int w = 0; w < WIDTH; w++) {
        wide.x[w] = widened(elements.x[w]);
    }
    return wide;
}

// The largest power of 2 that divides both.
__device__ constexpr int common_power_of_2(int a, int b) {
    return a % 2 == 0 && b % 2 == 0 ? 2 * common_power_of_2(a / 2, b / 2) : 1;
}

// ANCHOR: load
// Copies rows [first, first + ROWS) of a matrix that ends before row `end`; columns from `columns`
// on, HEAD_DIM at most, are filled up with zeros to a multiple of 4. Copies 4 elements at a time
// where the matrix is aligned so, which all threads see alike, and where two threads or more can
// share a row, so that each sector of 32 bytes is asked for once.
template <int ROWS, int STRIDE, typename T>
__device__ __forceinline__ void load_rows(
    float* tile_smem,  // [ROWS][STRIDE]
    const T* matrix,   // [rows, columns] f32, f16 or bf16
    long long row_stride,
    int first, int end, int columns
) {
    constexpr int VECTORS = (HEAD_DIM + 3) / 4;                 // of a row
    constexpr int LANES = common_power_of_2(VECTORS, THREADS);  // threads that share a row
    constexpr int STEP = THREADS / LANES;                       // rows that are loaded together
    if constexpr (HEAD_DIM % 4 == 0 && LANES > 1 && ROWS % STEP == 0) {
        if (reinterpret_cast<unsigned long long>(matrix) % (4 * sizeof(T)) == 0 && row_stride % 4 == 0 && columns % 4 == 0) {
            const int row = threadIdx.x / LANES;
            const int x = threadIdx.x % LANES * 4;
            const T* source = matrix + (first + row) * row_stride + x;
            float* target = tile_smem + row * STRIDE + x;
            const int rows = end - first - row;  // from this thread's first one on
#pragma unroll 4
            for (int i = 0; i < ROWS; i += STEP, source += STEP * row_stride) {
#pragma unroll
                for (int c = 0; c < 4 * VECTORS; c += 4 * LANES) {
                    const Vector<4> zeros = {};
                    const Vector<4> value = i < rows && x + c < columns ? vector_at<4>(source + c) : zeros;
                    *reinterpret_cast<Vector<4>*>(target + i * STRIDE + c) = value;
                }
            }
            return;
        }
    }
    load_tile<ROWS, 4 * VECTORS, STRIDE>(tile_smem, matrix, row_stride, first, end, columns);
}
// ANCHOR_END: load

// Copies rows [first, end) of shared memory to a matrix, neighbouring threads neighbouring columns.
template <int STRIDE, typename T>
__device__ __forceinline__ void store_rows(
    const float* tile_smem,  // [end - first][STRIDE]
    T* matrix,               // [rows, columns] f32, f16 or bf16
    long long row_stride,
    int first, int end, int columns
) {
    for (int element = threadIdx.x; element < (end - first) * columns; element += THREADS) {
        const int row = element / columns;
        const int x = element % columns;
        matrix[(first + row) * row_stride + x] = rounded<T>(tile_smem[row * STRIDE + x]);
    }
}
