// A counting barrier that only the threads within the array reach.
//
// launch: grid=1 block=64
// args: i32[50]=iota i32[64]=zeros i32=50
// bug: divergent barrier

extern "C" __global__ void count_odd(const int* in, int* out, int n) {
    int t = threadIdx.x, count = 0;
    if (t < n) {
        count = __syncthreads_count(in[t] % 2);  // BUG
    }
    __syncthreads();
    out[t] = count;
}
