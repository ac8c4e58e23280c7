// One thread's element is read by its neighbours in other blocks while it doubles it.
//
// launch: grid=4 block=32
// args: i32[128]=iota i32[128]=zeros
// bug: global race

extern "C" __global__ void double_and_copy(int* x, int* out) {
    int i = blockIdx.x * 32 + threadIdx.x;
    out[i] = x[(i + 64) % 128];  // BUG
    x[i] *= 2;  // BUG
}
