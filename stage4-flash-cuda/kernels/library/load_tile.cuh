// Loads a tile of a matrix from global to shared memory, by all threads of the block. Elements
// beyond the matrix are not read: the tile gets 0 there, which adds nothing to a product. The
// caller puts a barrier before the first use.

#pragma once

#include "element.cuh"

// ANCHOR: load
// Copies rows [first, first + ROWS) and the first WIDTH columns of a matrix that ends before row
// `end` and column `columns`. Neighbouring threads copy neighbouring columns.
template <int ROWS, int WIDTH, int STRIDE, typename T>
__device__ __forceinline__ void load_tile(
    float* tile_smem,  // [ROWS][STRIDE], of which WIDTH columns are written
    const T* matrix,   // [end, columns] f32, f16 or bf16
    long long row_stride,
    int first, int end, int columns
) {
#pragma unroll 1  // unrolled loads would take registers that the kernels need elsewhere
    for (int element = threadIdx.x; element < ROWS * WIDTH; element += THREADS) {
        const int row = element / WIDTH;
        const int x = element % WIDTH;
        const bool inside = first + row < end && x < columns;
        tile_smem[row * STRIDE + x] = inside ? widened(matrix[(first + row) * row_stride + x]) : 0.0f;
    }
}
// ANCHOR_END: load
