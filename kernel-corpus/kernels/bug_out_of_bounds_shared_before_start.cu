// The first thread reads the element before its array, which is the last one of the array before.
//
// launch: grid=1 block=64
// args: i32[64]=iota i32[64]=zeros
// bug: out of bounds

extern "C" __global__ void steps(const int* in, int* out) {
    __shared__ int squares[64];
    __shared__ int values[64];
    int t = threadIdx.x;
    values[t] = in[t];
    squares[t] = in[t] * in[t];
    __syncthreads();
    out[t] = values[t] - values[t - 1] + squares[63 - t] - squares[t > 0 ? t - 1 : 0];  // BUG
}
