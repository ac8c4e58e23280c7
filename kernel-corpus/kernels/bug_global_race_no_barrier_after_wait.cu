// Thread 0 waits for the other block's flag; the other warps read the data
// without waiting for thread 0.
//
// launch: grid=2 block=96
// args: i32[96]=iota i32[96]=zeros u32[1]=zeros i32[96]=zeros
// bug: global race

extern "C" __global__ void hand_over(const int* in, int* data, unsigned* ready, int* out) {
    int t = threadIdx.x;
    if (blockIdx.x == 0) {
        data[t] = in[t] * 3;
        __threadfence();
        __syncthreads();
        if (t == 0) atomicExch(ready, 1u);
    } else {
        if (t == 0) {
            while (atomicAdd(ready, 0u) == 0) {}
            __threadfence();
        }
        __syncwarp();
        out[t] = data[t];  // BUG
    }
}
