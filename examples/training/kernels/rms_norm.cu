// RMS norm without weights: y = x * factor, where factor = 1 / sqrt(mean(x^2) + 1e-5) of the row.
//
// Grid:   x = rows. Block: (32), a warp for each row. Shared: none.
//
// launch: grid=5 block=32
// args: f32[200]=uninit f32[5]=uninit f32[200]=random i32=40

#include "prelude.cuh"

extern "C" __global__ void __launch_bounds__(32) rms_norm(
    float* y,        // [rows, width] f32, written
    float* factors,  // [rows] f32, written
    const float* x,  // [rows, width] f32
    int width
) {
    const int begin = blockIdx.x * width;
    float squares = 0.0f;
    for (int c = threadIdx.x; c < width; c += 32) {
        squares += x[begin + c] * x[begin + c];
    }
    const float factor = 1.0f / sqrtf(warp_sum(squares) / width + 1e-5f);
    for (int c = threadIdx.x; c < width; c += 32) {
        y[begin + c] = x[begin + c] * factor;
    }
    if (threadIdx.x == 0) factors[blockIdx.x] = factor;
}
