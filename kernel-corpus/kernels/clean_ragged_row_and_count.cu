// Seven sums in shared memory, and behind them a count that another warp stores
// meanwhile: the compiler loads the sums in two groups of four words, and marks the last
// word, the count, as unused.
//
// launch: grid=1 block=64
// args: i32[64]=iota i32[64]=uninit i32[1]=uninit
// bug: none
// expect 1: i32 1876 1876 1876 1876 1876 1876 1876 1876 1876 1876 1876 1876 1876 1876 1876 1876 1876 1876 1876 1876
// expect 1: i32 1876 1876 1876 1876 1876 1876 1876 1876 1876 1876 1876 1876 1876 1876 1876 1876 1876 1876 1876 1876
// expect 1: i32 1876 1876 1876 1876 1876 1876 1876 1876 1876 1876 1876 1876 1876 1876 1876 1876 1876 1876 1876 1876
// expect 1: i32 1876 1876 1876 1876
// expect 2: i32 63

extern "C" __global__ void totals(const int* in, int* out, int* count) {
    __shared__ __align__(16) int s[8];
    int t = threadIdx.x;
    if (t < 7) s[t] = 2 * in[t] + in[63 - t];
    __syncthreads();
    if (t == 63) s[7] = in[63];
    int total = 0;
#pragma unroll
    for (int k = 0; k < 7; k++) total += s[k] * (k + 1);
    out[t] = total;
    if (t == 63) count[0] = s[7];
}
