// Step of AdamW: a weight moves by its mean gradient, divided by the root of its mean square.
//
// Idea: both means are over the past steps, and the last ones count most. They begin at 0, which
// `rate` and `root` correct. `keep` pulls each weight to 0, whatever its gradient. [Loshchilov and
// Hutter, Decoupled Weight Decay Regularization, algorithm 2]
//
// Grid:   x = ceil(count / block), a thread for each weight. Shared: none.
//
// launch: grid=4 block=32
// args: f32[100]=random f32[100]=random f32[100]=zeros f32[100]=zeros i32=100 f32=0.1 f32=0.1 f32=0.9
// args: f32=0.99 f32=0.999

extern "C" __global__ void adamw(
    float* weights,          // [count] f32, read and written
    const float* gradients,  // [count] f32
    float* means,            // [count] f32, read and written: of the gradients
    float* squares,          // [count] f32, read and written: of their squares
    int count,
    float rate,              // learning rate / (1 - beta1^step)
    float root,              // sqrt(1 - beta2^step)
    float beta1, float beta2,
    float keep               // 1 - learning rate * decay
) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        const float g = gradients[i];
        means[i] = beta1 * means[i] + (1.0f - beta1) * g;
        squares[i] = beta2 * squares[i] + (1.0f - beta2) * g * g;
        weights[i] = keep * weights[i] - rate * means[i] / (sqrtf(squares[i]) / root + 1e-8f);
    }
}
