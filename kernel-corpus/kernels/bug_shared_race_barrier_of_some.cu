// A barrier in a branch that part of the block takes; the rest reads what it should wait for.
//
// launch: grid=1 block=64
// args: i32[64]=iota i32[64]=zeros
// bug: shared race

extern "C" __global__ void mirror(const int* in, int* out) {
    __shared__ int tile[64];
    int t = threadIdx.x;
    tile[t] = 0;
    __syncthreads();
    tile[t] = in[t];
    if (t < 48) __syncthreads();  // MISSED
    out[t] = tile[63 - t];  // BUG
}
