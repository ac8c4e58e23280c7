// Each block counts itself in shared memory, where no other block sees it, and then reads
// what its neighbour wrote.
//
// launch: grid=4 block=32
// args: i32[128]=iota i32[128]=zeros i32[128]=zeros
// bug: global race

extern "C" __global__ void shift(const int* in, int* data, int* out) {
    __shared__ int count;
    int t = threadIdx.x, b = blockIdx.x;
    if (t == 0) count = 0;
    __syncthreads();
    data[b * 32 + t] = 2 * in[b * 32 + t];  // BUG
    __threadfence();
    atomicAdd(&count, 1);
    __syncthreads();
    out[b * 32 + t] = data[(b + 3) % 4 * 32 + t] + count;  // BUG
}
