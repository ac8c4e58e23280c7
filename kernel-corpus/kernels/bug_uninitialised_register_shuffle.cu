// The leader's value is broadcast from a lane that did not set it.
//
// launch: grid=1 block=32
// args: i32[32]=iota i32[32]=zeros
// bug: uninitialised register

extern "C" __global__ void broadcast(const int* in, int* out) {
    int lane = threadIdx.x, base;
    if (lane == 0) base = in[5];
    base = __shfl_sync(0xffffffffu, base, 1);  // BUG
    out[lane] = base + lane;  // BUG
}
