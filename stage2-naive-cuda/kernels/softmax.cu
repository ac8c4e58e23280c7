// Softmax, in place: x = exp(x - max) / sum(exp(x - max)) over one dimension, and the log-sum-exp of it.
//
// Idea: one block per vector. Its threads stride along the vector, each keeps its own maximum (then sum), and the
// block folds those of all threads in shared memory, halving the number of active threads at each step.
// A thread reads and writes only its own elements of x, so the passes over x need no barrier between them.
// The dimension may be the last one (inner = 1) or the next-to-last (inner = its columns). In the latter case
// neighbouring threads read addresses `inner` floats apart.
// A vector that is empty or all -inf becomes 0, with log-sum-exp -inf.
//
// Grid:   x = outer * inner, one block per vector.
// Block:  (128).
// Shared: 128 * 4 bytes, static.
// Reads:  x. Writes: x, lse.
//
// launch: grid=20 block=128
// args: f32[6000]=random f32[20]=uninit i32=300 i32=1

#include "prelude.cuh"

constexpr int THREADS = 128;
static_assert((THREADS & (THREADS - 1)) == 0, "the reduction halves the block at every step");

// ANCHOR: reduce
struct Max {
    __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};
struct Sum {
    __device__ float operator()(float a, float b) const { return a + b; }
};

// Folds one value per thread into one for the whole block. All threads must call it, and all get the result.
template <typename Fold>
__device__ float reduce(float value, float* reduce_smem /* [THREADS] */, Fold fold) {
    reduce_smem[threadIdx.x] = value;
    __syncthreads();  // so that no thread reads a value that another has not stored yet
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) {
            reduce_smem[threadIdx.x] = fold(reduce_smem[threadIdx.x], reduce_smem[threadIdx.x + half]);
        }
        __syncthreads();  // so that no thread reads a value of the next step before it is stored
    }
    const float result = reduce_smem[0];
    __syncthreads();  // so that no thread stores the values of the next reduction while another reads this result
    return result;
}
// ANCHOR_END: reduce

// ANCHOR: kernel
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
    max = reduce(max, reduce_smem, Max());
    // exp(-inf - -inf) is NaN: where nothing is finite, subtract nothing, and every exponential is 0.
    const float shift = max == -INFINITY ? 0.0f : max;

    float sum = 0.0f;
    for (long long i = threadIdx.x; i < length; i += THREADS) {
        const float e = expf(vector[i * inner] - shift);
        vector[i * inner] = e;
        sum += e;
    }
    sum = reduce(sum, reduce_smem, Sum());

    const float scale = sum == 0.0f ? 0.0f : 1.0f / sum;
    for (long long i = threadIdx.x; i < length; i += THREADS) {
        vector[i * inner] *= scale;
    }
    if (threadIdx.x == 0 && lse != nullptr) {
        lse[blockIdx.x] = sum == 0.0f ? -INFINITY : shift + logf(sum);
    }
}
// ANCHOR_END: kernel
