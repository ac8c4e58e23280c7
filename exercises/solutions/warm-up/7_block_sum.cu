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
    __shared__ float sums[256];
    float sum = 0.0f;
    for (int i = threadIdx.x; i < columns; i += 256) sum += x[blockIdx.x * columns + i];
    sums[threadIdx.x] = sum;
    for (int half = 128; half > 0; half /= 2) {
        __syncthreads();  // so that no thread reads a sum before it is stored
        if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
    }
    if (threadIdx.x == 0) y[blockIdx.x] = sums[0];
}
