// Who sets a counter by a plain write and adds to it atomically at once may do so,
// if the others come later.
//
// launch: grid=3 block=64
// args: i32[1]=ones i32[1]=zeros i32[3]=uninit
// bug: none
// expect 0: i32 9
// expect 2: i32 164 164 164

extern "C" __global__ void count(int* total, int* ready, int* out) {
    __shared__ int counter;
    int t = threadIdx.x;
    if (t == 40) {
        counter = 0;
        atomicAdd(&counter, 100);
    }
    __syncthreads();
    atomicAdd(&counter, 1);
    __syncthreads();
    if (t == 0) {
        out[blockIdx.x] = counter;
        if (blockIdx.x == 0) {
            *total = 0;
            atomicAdd(total, 7);
            __threadfence();
            atomicExch(ready, 1);
        } else {
            while (atomicAdd(ready, 0) == 0) {}
            __threadfence();
            atomicAdd(total, 1);
        }
    }
}
