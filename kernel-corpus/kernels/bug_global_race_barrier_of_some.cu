// A barrier that the first warp alone takes, between a store to global memory and a read
// of it by the same block.
//
// launch: grid=2 block=64
// args: i32[128]=iota i32[128]=zeros i32[128]=zeros
// bug: global race

extern "C" __global__ void steps(const int* in, int* doubled, int* out) {
    int t = threadIdx.x;
    int *own = doubled + blockIdx.x * 64;
    own[t] = 2 * in[blockIdx.x * 64 + t];
    if (t < 32) __syncthreads();  // MISSED
    out[blockIdx.x * 64 + t] = own[(t + 32) % 64];  // BUG
}
