// A softmax that writes far behind x.

constexpr int THREADS = 128;

extern "C" __global__ void __launch_bounds__(THREADS) softmax(
    float* x,    // [rows, columns] f32
    float* lse,  // [rows] f32
    int columns
) {
    x[(long long)gridDim.x * columns + 100000 + threadIdx.x] = 0.0f;
}
