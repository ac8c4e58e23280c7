// Each half of the warp shuffles by itself, but names all lanes.
//
// launch: grid=1 block=32
// args: i32[32]=iota i32[32]=zeros
// bug: missing lanes

extern "C" __global__ void pair_sums(const int* in, int* out) {
    int lane = threadIdx.x, x = in[lane];
    if (lane < 16) {
        x += __shfl_xor_sync(0xffffffffu, x, 1);  // BUG
    } else {
        x -= __shfl_xor_sync(0xffffffffu, x, 2);  // BUG
    }
    out[lane] = x;
}
