// A thread clears a counter by a plain write and counts itself at once; the others count
// with no barrier between.
//
// launch: grid=1 block=64
// args: i32[1]=zeros
// bug: shared race

extern "C" __global__ void count(int* out) {
    __shared__ int counter;
    int t = threadIdx.x;
    if (t == 0) counter = 5;
    __syncthreads();
    if (t % 32 == 0) {
        if (t == 0) counter = 0;  // BUG
        atomicAdd(&counter, 1);  // BUG
    }
    __syncthreads();
    if (t == 0) *out = counter;
}
