// Gradient of RMS norm: dx += factor * (dy - y * mean(dy * y)).
//
// Idea: y = x * factor, and factor depends on the whole row: its derivative by x[c] is
// -factor^2 * y[c] / width. dx already has the gradient of the residual path.
//
// Grid:   x = rows. Block: (32), a warp for each row. Shared: none.
//
// launch: grid=5 block=32
// args: f32[200]=random f32[200]=random f32[200]=random f32[5]=ones i32=40

#include "prelude.cuh"

extern "C" __global__ void __launch_bounds__(32) rms_norm_backward(
    float* dx,             // [rows, width] f32, read and written
    const float* dy,       // [rows, width] f32
    const float* y,        // [rows, width] f32
    const float* factors,  // [rows] f32
    int width
) {
    const int begin = blockIdx.x * width;
    float sum = 0.0f;
    for (int c = threadIdx.x; c < width; c += 32) {
        sum += dy[begin + c] * y[begin + c];
    }
    const float mean = warp_sum(sum) / width;
    for (int c = threadIdx.x; c < width; c += 32) {
        dx[begin + c] += factors[blockIdx.x] * (dy[begin + c] - y[begin + c] * mean);
    }
}
