// Threads of one block exchange through global memory with no barrier.
//
// launch: grid=1 block=128
// args: i32[128]=iota i32[128]=zeros i32[128]=zeros
// bug: global race

extern "C" __global__ void rotate(const int* in, int* between, int* out) {
    int t = threadIdx.x;
    between[t] = in[t] + 1;
    out[t] = between[(t + 32) % 128];  // BUG
}
