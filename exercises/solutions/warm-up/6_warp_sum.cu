// Task: y[row] = sum of the elements of the row, without shared memory.
// Shapes: x has [rows, columns] elements, with 1 to 32 columns; y has [rows].
// Launch: a block of 32 threads per row.
// Hint: __shfl_down_sync(0xffffffff, value, 16) gives the value of the lane 16 further on; all 32
// lanes must take part. Lanes 16 to 31 have no lane so far on and get their own value back. With
// 16, 8, 4, 2, 1 lane 0 has the sum; the others have not.

extern "C" __global__ void warp_sum(
    const float* x,  // [rows, columns] f32
    float* y,        // [rows] f32
    int columns
) {
    const int lane = threadIdx.x;
    float sum = lane < columns ? x[blockIdx.x * columns + lane] : 0.0f;
    for (int offset = 16; offset > 0; offset /= 2) {
        sum += __shfl_down_sync(0xffffffff, sum, offset);
    }
    if (lane == 0) y[blockIdx.x] = sum;
}
