// Block 0 hands data to block 1 by a flag, with no fence before the flag.
//
// launch: grid=2 block=32
// args: i32[32]=iota i32[32]=zeros i32[1]=zeros i32[32]=zeros
// bug: global race

extern "C" __global__ void hand_over(const int* in, int* data, volatile int* ready, int* out) {
    int t = threadIdx.x;
    if (blockIdx.x == 0) {
        data[t] = in[t] * 3;  // BUG
        __syncwarp();
        if (t == 0) *ready = 1;
    } else {
        while (*ready == 0) {}
        __threadfence();
        out[t] = data[t];
    }
}
