// Rounds rows of activations to half precision: cuBLAS multiplies two matrices of one dtype.
//
// Grid:   x = n, one block per row.
// Block:  any size; the threads stride over the columns.
// Shared: none.
// Reads:  x. Writes: y.
// Rounds to the nearest, ties to even. As f16, a value beyond 65504 becomes infinite.
// Constants: ELEMENT (f16, bf16).
//
// launch: grid=3 block=64
// define: ELEMENT=bf16
// args: bf16[300]=uninit f32[300]=random i32=100

#include "stage5-decode/library/cache.cuh"

// ANCHOR: kernel
extern "C" __global__ void narrow(
    Bits* y,         // [n, columns]
    const float* x,  // [n, columns] f32
    int columns
) {
    const long long first = static_cast<long long>(blockIdx.x) * columns;
    for (int c = threadIdx.x; c < columns; c += blockDim.x) {
        y[first + c] = ELEMENT::narrow(x[first + c]);
    }
}
// ANCHOR_END: kernel
