// Counts how often each of 8 values occurs.
//
// Symptom: right in the first launch after a reboot. Later the counts are too large, by
// a little or by billions.
//
// Idea: a block counts in shared memory, where additions are cheap, and adds its counts
// to the result at the end.
//
// launch: grid=2 block=32
// args: i32[64]={0,1,2,3,4,5,6,7,0,1,2,3,4,5,6,7,0,1,2,3,4,5,6,7,0,1,2,3,4,5,6,7,7,7,7,7,7,7,7,7,7,7,7,7,7,7,7,7,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0}
// args: i32[8]=zeros
// expect 1: i32 20 4 4 4 4 4 4 20

extern "C" __global__ void histogram(
    const int* x,  // [64] i32, values 0 to 7
    int* counts    // [8] i32, 0 before the launch
) {
    __shared__ int counts_smem[8];
    atomicAdd(&counts_smem[x[blockIdx.x * 32 + threadIdx.x]], 1);
    __syncthreads();  // so that no thread reads a count before all threads of the block have counted
    if (threadIdx.x < 8) atomicAdd(&counts[threadIdx.x], counts_smem[threadIdx.x]);
}
