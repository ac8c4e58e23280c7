// A softmax that never ends: it waits for a value that nobody writes.

constexpr int THREADS = 128;

extern "C" __global__ void __launch_bounds__(THREADS) softmax(
    volatile float* x,  // [rows, columns] f32
    float* lse,         // [rows] f32
    int columns
) {
    while (x[0] != 1e30f) {
    }
}
