// A thread waits for a flag that nobody sets.
//
// launch: grid=2 block=32
// args: i32[1]=zeros i32[2]=zeros
// bug: endless loop

extern "C" __global__ void wait(volatile int* flag, int* out) {
    if (threadIdx.x == 0) {
        while (*flag == 0) {}  // BUG
        out[blockIdx.x] = 1;
    }
}
