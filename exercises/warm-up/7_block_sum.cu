// Task: y[row] = sum of the elements of the row; all threads of the block load.
// Shapes: x has [rows, columns] elements, with any number of columns; y has [rows].
// Launch: a block of 256 threads per row.
// Hint: a thread adds the elements threadIdx.x, threadIdx.x + 256, …; the sums of the threads meet
// in shared memory.

extern "C" __global__ void block_sum(
    const float* x,  // [rows, columns] f32
    float* y,        // [rows] f32
    int columns
) {
    // Your code.
}
