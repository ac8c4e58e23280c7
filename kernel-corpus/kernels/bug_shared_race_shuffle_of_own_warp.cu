// A shuffle orders the lanes of one warp, but the row is read by the other warp.
//
// launch: grid=1 block=64
// args: i32[64]=iota i32[64]=zeros
// bug: shared race

extern "C" __global__ void reverse(const int* in, int* out) {
    __shared__ int row[64];
    int t = threadIdx.x, x = in[t];
    row[t] = 0;
    __syncthreads();
    row[t] = x;
    int first = __shfl_sync(0xffffffffu, x, 0);
    out[t] = row[63 - t] + first;  // BUG
}
