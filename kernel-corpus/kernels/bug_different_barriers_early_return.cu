// A warp with nothing to add meets the others once and returns; the others go on to a barrier of their own.
//
// launch: grid=1 block=96
// args: i32[96]=iota i32[64]=zeros i32=64
// bug: different barriers

extern "C" __global__ void add(const int* in, int* out, int n) {
    __shared__ int tile[96];
    int t = threadIdx.x;
    tile[t] = in[t];
    if (t >= n) {
        __syncthreads();  // BUG
        return;
    }
    int x = 2 * in[t];
    __syncthreads();  // BUG
    out[t] = x + tile[95 - t];
}
