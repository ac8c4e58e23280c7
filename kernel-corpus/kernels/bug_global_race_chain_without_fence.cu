// A row goes from block to block and each adds to it. They fence behind the wait, but
// not before they pass it on.
//
// launch: grid=6 block=64
// args: i32[64]=iota i32[7]={1,0,0,0,0,0,0}
// bug: global race

extern "C" __global__ void chain(int* row, volatile int* turn) {
    int t = threadIdx.x, b = blockIdx.x;
    if (t == 0) {
        while (turn[b] == 0) {}
        __threadfence();
    }
    __syncthreads();
    row[t] = row[t] * 3 + b;  // UPDATE // BUG
    __syncthreads();
    if (t == 0) turn[b + 1] = 1;
}
