// Task: counts[v] = number of elements of x that are v, for v from 0 to 63.
// A block counts in shared memory, then adds each count to global memory once.
// Shapes: x has n elements; counts has 64, all 0 before the launch.
// Launch: ceil(n / 256) blocks of 256 threads.
// Hint: atomicAdd(&counts_smem[v], 1); shared memory is not 0 at the start.

extern "C" __global__ void histogram(
    const int* x,  // [n] i32, values 0 to 63
    int* counts,   // [64] i32
    int n
) {
    __shared__ int counts_smem[64];
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (threadIdx.x < 64) counts_smem[threadIdx.x] = 0;
    __syncthreads();  // so that no thread counts before the counts are 0
    if (i < n) atomicAdd(&counts_smem[x[i]], 1);
    __syncthreads();  // so that no count is read before all threads have counted
    if (threadIdx.x < 64) atomicAdd(&counts[threadIdx.x], counts_smem[threadIdx.x]);
}
