// A thread's own counts in local memory are not cleared.
//
// launch: grid=1 block=32
// args: i32[128]=iota i32[32]=zeros
// bug: uninitialised local

extern "C" __global__ void most_frequent(const int* in, int* out) {
    int counts[8];
    int t = threadIdx.x;
    for (int i = 0; i < 4; i++) {
        counts[in[4 * t + i] * 5 % 8]++;  // BUG
    }
    out[t] = counts[in[t] % 8];  // BUG
}
