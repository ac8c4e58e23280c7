// Labels run from 1 to 8, and are used as an index without subtracting one.
//
// launch: grid=1 block=32
// args: i32[8]={1,2,3,8,5,6,7,4} u32[8]=zeros
// bug: out of bounds

extern "C" __global__ void count_labels(const int* labels, unsigned* counts) {
    if (threadIdx.x < 8) atomicAdd(&counts[labels[threadIdx.x]], 1u);  // BUG
}
