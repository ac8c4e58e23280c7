// Blocks count into one histogram without atomics.
//
// launch: grid=4 block=32
// args: i32[128]=iota i32[8]=zeros
// bug: global race

extern "C" __global__ void histogram(const int* in, int* counts) {
    if (threadIdx.x == 0) {
        for (int i = 0; i < 32; i++) {
            counts[in[blockIdx.x * 32 + i] % 8]++;  // BUG
        }
    }
}
