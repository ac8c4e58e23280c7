// Block 0 waits for a flag that is no volatile and no atomic one.
//
// launch: grid=2 block=32
// args: i32[1]=zeros i32[64]=zeros
// bug: global race

extern "C" __global__ void wait(int* flag, int* out) {
    int t = blockIdx.x * 32 + threadIdx.x;
    if (blockIdx.x == 0) {
        while (*flag == 0) {  // BUG
            __nanosleep(100);
            __threadfence();
        }
    } else if (threadIdx.x == 0) {
        *flag = 1;  // BUG
    }
    out[t] = t;
}
