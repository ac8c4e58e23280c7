// The last lanes have returned, and are read all the same.
//
// launch: grid=1 block=32
// args: i32[24]=iota i32[24]=zeros i32=24
// bug: inactive lane

extern "C" __global__ void add_eighth(const int* in, int* out, int n) {
    int lane = threadIdx.x;
    if (lane >= n) return;
    int x = in[lane];
    x += __shfl_down_sync(0xffffffffu, x, 8);  // BUG
    out[lane] = x;
}
