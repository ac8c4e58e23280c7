// Transposition: y[c][r] = x[r][c].
//
// Idea: the gradient of a matrix is dy^T x, and stage 2 has no product with its left side
// transposed. Neighbouring threads read elements of different rows of x: on a GPU a tile in shared
// memory would save loads, as in 2_gemm_tiled.cu of stage 2.
//
// Grid:   x = ceil(rows * columns / block), a thread for each element. Shared: none.
//
// launch: grid=32 block=32
// args: f32[1000]=uninit f32[1000]=random i32=25 i32=40

extern "C" __global__ void transpose(
    float* y,        // [columns, rows] f32, written
    const float* x,  // [rows, columns] f32
    int rows, int columns
) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < rows * columns) y[i] = x[i % rows * columns + i / rows];
}
