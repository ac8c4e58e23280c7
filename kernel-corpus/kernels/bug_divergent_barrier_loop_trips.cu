// A barrier in a loop that runs a different number of times in each thread.
//
// launch: grid=1 block=32
// args: i32[32]=iota i32[32]=zeros
// bug: divergent barrier

extern "C" __global__ void staircase(const int* in, int* out) {
    __shared__ int tile[32];
    int t = threadIdx.x, sum = 0;
    tile[t] = in[t];
    for (int i = t; i < 32; i += 5) {
        __syncthreads();  // BUG
        sum += tile[i];
        __syncthreads();  // BUG
    }
    __syncthreads();
    out[t] = sum;
}
