// A softmax that never ends: it waits for a value that nobody writes.

constexpr int THREADS = 128;

extern "C" __global__ void __launch_bounds__(THREADS) softmax(
    volatile float* x,  // [outer, length, inner] f32, packed
    float* lse,         // [outer, inner] f32, or null
    int length,         // of the normalised dimension
    int inner           // product of the dimensions after it
) {
    while (x[0] != 1e30f) {
    }
}
