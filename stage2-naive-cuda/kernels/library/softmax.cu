// Softmax of the library, over any dimension, in place: x = exp(x - max) / sum(exp(x -
// max)), and its log-sum-exp.
//
// Idea: rung 1 of the ladder, ../1_softmax_tree.cu, for vectors whose elements lie `inner` floats
// apart. The dimension is the last one (inner = 1) or one before it (inner = product of those
// after). A vector that is empty or all -inf becomes 0, with log-sum-exp -inf.
//
// Grid:   x = outer * inner blocks, one per vector.
// Block:  (128).
// Shared: 128 * 4 bytes, static.
// Reads:  x. Writes: x, lse.
// More than rung 1: `inner`, and lse may be null.
//
// launch: grid=20 block=128
// args: f32[6000]=random f32[20]=uninit i32=300 i32=1

#include "prelude.cuh"
#include "stage2-naive-cuda/block_reduce.cuh"

constexpr int THREADS = 128;

extern "C" __global__ void __launch_bounds__(THREADS) softmax(
    float* x,    // [outer, length, inner] f32, packed
    float* lse,  // [outer, inner] f32, or null
    int length,  // of the normalised dimension
    int inner    // product of the dimensions after it
) {
    __shared__ float reduce_smem[THREADS];
    const long long outer = blockIdx.x / inner;
    float* vector = x + outer * length * inner + blockIdx.x % inner;  // element i is vector[i * inner]

    float max = -INFINITY;
    for (long long i = threadIdx.x; i < length; i += THREADS) {
        max = fmaxf(max, vector[i * inner]);
    }
    max = block_reduce<THREADS>(max, reduce_smem, Max());
    // exp(-inf - -inf) is NaN: if no element is finite, subtract 0, and every exponential is 0.
    const float shift = max == -INFINITY ? 0.0f : max;

    float sum = 0.0f;
    for (long long i = threadIdx.x; i < length; i += THREADS) {
        const float e = expf(vector[i * inner] - shift);
        vector[i * inner] = e;
        sum += e;
    }
    sum = block_reduce<THREADS>(sum, reduce_smem, Sum());

    const float scale = sum == 0.0f ? 0.0f : 1.0f / sum;
    for (long long i = threadIdx.x; i < length; i += THREADS) {
        vector[i * inner] *= scale;
    }
    if (threadIdx.x == 0 && lse != nullptr) {
        lse[blockIdx.x] = sum == 0.0f ? -INFINITY : shift + logf(sum);
    }
}
