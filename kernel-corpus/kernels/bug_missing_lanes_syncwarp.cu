// Half a warp waits for the whole, which is at a vote.
//
// launch: grid=1 block=32
// args: i32[32]=iota i32[32]=zeros
// bug: missing lanes

extern "C" __global__ void fill(const int* in, int* out) {
    __shared__ int row[32];
    int lane = threadIdx.x;
    row[lane] = in[lane];
    if (lane < 16) {
        row[lane] *= 2;
        __syncwarp();  // BUG
    }
    bool large = __any_sync(0xffffffffu, row[lane] > 20);
    out[lane] = large ? row[lane] : 0;
}
