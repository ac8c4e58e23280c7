// A softmax that writes far behind x.

constexpr int THREADS = 128;

extern "C" __global__ void __launch_bounds__(THREADS) softmax(
    float* x,    // [outer, length, inner] f32, packed
    float* lse,  // [outer, inner] f32, or null
    int length,  // of the normalised dimension
    int inner    // product of the dimensions after it
) {
    x[(long long)gridDim.x * length + 100000 + threadIdx.x] = 0.0f;
}
