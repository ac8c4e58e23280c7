// Task: y[column, row] = x[row, column].
// Warps load whole rows of x and store whole rows of y; shared memory has no bank conflicts.
// Shapes: x has rows * columns elements, row after row; y has columns * rows.
// Launch: ceil(columns / 32) by ceil(rows / 32) blocks of 32 by 32 threads.
// Hint: __shared__ float tile[32][33]; has rows of 33 floats. In y, blockIdx.x counts rows.

extern "C" __global__ void transpose(
    const float* x,  // [rows, columns] f32
    float* y,        // [columns, rows] f32
    int rows, int columns
) {
    // Your code.
}
