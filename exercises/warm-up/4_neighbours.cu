// Task: y[i] = x[i - 1] + x[i] + x[i + 1]; an element beyond either end counts as 0.
// A block loads each of its elements from global memory once, and the one before and the one after.
// Shapes: x and y have n elements.
// Launch: ceil(n / 128) blocks of 128 threads.
// Hint: __shared__ float tile[130]; and a barrier between stores and loads.

extern "C" __global__ void neighbours(
    const float* x,  // [n] f32
    float* y,        // [n] f32
    int n
) {
    // Your code.
}
