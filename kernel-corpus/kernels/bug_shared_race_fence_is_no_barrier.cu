// A fence orders a thread's own accesses; it waits for nobody.
//
// launch: grid=1 block=64
// args: i32[64]=iota i32[64]=zeros
// bug: shared race

extern "C" __global__ void reverse(const int* in, int* out) {
    __shared__ int tile[64];
    int t = threadIdx.x;
    tile[t] = 0;
    __syncthreads();
    tile[t] = in[t];
    __threadfence_block();
    out[t] = tile[63 - t];  // BUG
}
