// Loss of each token, -log(softmax(logits)[target]), and its gradient in the place of the logits.
//
// Idea: with p = softmax(logits), the gradient is p - 1 at the target, and p elsewhere. The loss of
// a batch is the mean over its rows, so each gradient is divided by their number.
//
// Grid:   x = rows. Block: (32), a warp for each token. Shared: none.
//
// launch: grid=5 block=32
// args: f32[265]=random f32[5]=uninit i32[5]={0,52,7,31,32} i32=53

#include "prelude.cuh"

extern "C" __global__ void __launch_bounds__(32) cross_entropy(
    float* logits,       // [rows, vocabulary] f32; becomes the gradient of the mean loss
    float* losses,       // [rows] f32, written
    const int* targets,  // [rows] i32, below vocabulary
    int vocabulary
) {
    float* row = logits + blockIdx.x * vocabulary;
    const float target = row[targets[blockIdx.x]];
    float max = -INFINITY, sum = 0.0f;
    for (int c = threadIdx.x; c < vocabulary; c += 32) {
        max = fmaxf(max, row[c]);
    }
    max = warp_max(max);
    for (int c = threadIdx.x; c < vocabulary; c += 32) {
        sum += expf(row[c] - max);
    }
    sum = warp_sum(sum);
    if (threadIdx.x == 0) losses[blockIdx.x] = logf(sum) + max - target;
    for (int c = threadIdx.x; c < vocabulary; c += 32) {
        const float p = expf(row[c] - max) / sum;
        row[c] = (c == targets[blockIdx.x] ? p - 1.0f : p) / gridDim.x;
    }
}
