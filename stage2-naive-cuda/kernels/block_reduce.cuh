// Tree reduction over a block: one value per thread to one value for all.
//
// Idea: half of the threads fold the values of the other half into their own, then a quarter,
// until one value is left.
// Shared: THREADS * 4 bytes, given by the kernel.

#pragma once

// ANCHOR: reduce
struct Max {
    __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};
struct Sum {
    __device__ float operator()(float a, float b) const { return a + b; }
};

// Folds one value per thread into one for the whole block. All THREADS threads must call
// it, and all get the result.
template <int THREADS, typename Fold>
__device__ float block_reduce(float value, float* reduce_smem /* [THREADS] */, Fold fold) {
    static_assert(THREADS >= 2 && (THREADS & (THREADS - 1)) == 0, "each step halves the number of threads, down to 1");
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
