// Half-warps shuffle each by itself, and then read each other's half of the row.
//
// launch: grid=1 block=32
// args: i32[32]=iota i32[32]=zeros
// bug: shared race

extern "C" __global__ void reverse(const int* in, int* out) {
    __shared__ int row[32];
    int lane = threadIdx.x, x = in[lane];
    row[lane] = 0;
    __syncwarp();
    row[lane] = x;
    unsigned half = lane < 16 ? 0x0000ffffu : 0xffff0000u;
    int first = __shfl_sync(half, x, 0, 16);
    out[lane] = row[31 - lane] + first;  // BUG
}
