// Two sums over the threads of a block, one after the other, in the same shared memory.
//
// Idea: the book's page on barriers takes barriers out of the PTX, and the simulator names both
// sides of the race.
// Grid: 1. Block: 128 threads.
// Shared: 128 * 4 bytes, static.
// Reads: numbers. Writes: sums, two for each thread.
//
// launch: grid=1 block=128
// args: f32[128]=ones f32[256]=uninit

constexpr int THREADS = 128;

// ANCHOR: kernel
__device__ inline float sum_of_block(float x, float* smem) {
    smem[threadIdx.x] = x;
    __syncthreads();  // 1: before other threads' numbers are read
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) {
            smem[threadIdx.x] += smem[threadIdx.x + half];
        }
        __syncthreads();  // 2: before the next step reads what this one stored
    }
    float sum = smem[0];
    __syncthreads();  // 3: before the next sum overwrites what others still read
    return sum;
}

extern "C" __global__ void lab_barriers(const float* numbers,  // [128] f32
                                        float* sums) {         // [256] f32
    __shared__ float smem[THREADS];
    float x = numbers[threadIdx.x];
    sums[threadIdx.x] = sum_of_block(x, smem);
    sums[THREADS + threadIdx.x] = sum_of_block(2.0f * x, smem);
}
// ANCHOR_END: kernel
