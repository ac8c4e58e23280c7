// Thread 0 fences for its block, but has not waited for what the other threads write.
//
// launch: grid=2 block=64
// args: i32[64]=iota i32[64]=zeros u32[1]=zeros i32[64]=zeros
// bug: global race

extern "C" __global__ void hand_over(const int* in, int* data, unsigned* ready, int* out) {
    int t = threadIdx.x;
    if (blockIdx.x == 0) {
        data[63 - t] = in[t] * 3;  // BUG
        if (t == 0) {
            __threadfence();
            atomicExch(ready, 1u);
        }
    } else {
        if (t == 0) {
            while (atomicAdd(ready, 0u) == 0) {}
            __threadfence();
        }
        __syncthreads();
        out[t] = data[t];
    }
}
