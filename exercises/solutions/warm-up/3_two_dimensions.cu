// Task: add bias[column] to each element of a matrix.
// Shapes: x and y have rows * columns elements, row after row; bias has columns elements.
// Launch: ceil(columns / 32) by ceil(rows / 8) blocks of 32 by 8 threads.
// Hint: threads of a warp differ in threadIdx.x, so let x count the columns.

extern "C" __global__ void two_dimensions(
    const float* x,     // [rows, columns] f32
    const float* bias,  // [columns] f32
    float* y,           // [rows, columns] f32
    int rows, int columns
) {
    const int column = blockIdx.x * blockDim.x + threadIdx.x;
    const int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= rows || column >= columns) return;
    y[row * columns + column] = x[row * columns + column] + bias[column];
}
