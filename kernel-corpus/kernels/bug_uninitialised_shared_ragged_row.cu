// Seven sums are loaded in two groups of four words, of which the last is unused; nobody
// stored the one before it.
//
// launch: grid=1 block=64
// args: i32[64]=iota i32[64]=uninit
// bug: uninitialised shared

extern "C" __global__ void totals(const int* in, int* out) {
    __shared__ __align__(16) int s[8];
    int t = threadIdx.x;
    if (t < 6) s[t] = 2 * in[t] + in[63 - t];
    __syncthreads();
    int total = 0;
#pragma unroll
    for (int k = 0; k < 7; k++) total += s[k] * (k + 1);  // BUG
    out[t] = total;
}
