// Task: y[i] = 2 * x[i], one element per thread, for any n.
// Shapes: x and y have n elements.
// Launch: ceil(n / 128) blocks of 128 threads; in the last one, threads may have no element.
// Hint: a thread whose index is not below n does nothing.

extern "C" __global__ void guard(
    const float* x,  // [n] f32
    float* y,        // [n] f32
    int n
) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2.0f * x[i];
}
