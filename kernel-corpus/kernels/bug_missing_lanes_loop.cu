// Lanes leave the loop one after another, and its vote still names them all.
//
// launch: grid=1 block=32
// args: i32[32]=iota i32[32]=zeros
// bug: missing lanes

extern "C" __global__ void rounds(const int* in, int* out) {
    int lane = threadIdx.x, x = in[lane], sum = 0;
    for (int i = 0; i <= x; i++) {
        sum += __popc(__ballot_sync(0xffffffffu, i < x));  // BUG
    }
    sum += __shfl_xor_sync(0xffffffffu, sum, 1);
    out[lane] = sum;
}
