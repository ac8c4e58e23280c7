// Lane 0 should give its value to the lanes of a branch that it does not take.
//
// launch: grid=1 block=32
// args: i32[32]=iota i32[32]=zeros
// bug: inactive lane

extern "C" __global__ void minus_first(const int* in, int* out) {
    int lane = threadIdx.x, x = in[lane];
    if (lane >= 8) {
        x -= __shfl_sync(0xffffff00u, x, 0);  // BUG
    }
    out[lane] = x;
}
