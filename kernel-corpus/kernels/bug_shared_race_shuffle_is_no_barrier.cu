// A shuffle brings the lanes together, but orders no memory.
//
// launch: grid=1 block=32
// args: i32[32]=iota i32[32]=zeros
// bug: shared race

extern "C" __global__ void reverse(const int* in, int* out) {
    __shared__ int row[32];
    int lane = threadIdx.x;
    row[lane] = 0;
    __syncwarp();
    row[lane] = in[lane];
    int first = __shfl_sync(0xffffffffu, in[lane], 0);
    out[lane] = row[31 - lane] + first;  // BUG
}
