// Task: y[i] = x[i] * x[i], one element per thread.
// Shapes: x and y have n elements, a multiple of 64.
// Launch: n / 64 blocks of 64 threads.
// Hint: blockIdx.x is the block, blockDim.x its threads, threadIdx.x the thread in it.

extern "C" __global__ void map(
    const float* x,  // [n] f32
    float* y         // [n] f32
) {
    // Your code.
}
