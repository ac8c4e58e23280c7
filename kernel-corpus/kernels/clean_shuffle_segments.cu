// Segments of eight lanes: width keeps shuffles within them.
//
// launch: grid=1 block=32
// args: i32[32]=iota i32[32]=uninit
// bug: none
// expect 1: i32 28 28 28 28 28 28 28 28 92 92 92 92 92 92 92 92 156 156 156 156 156 156 156 156 220 220 220 220 220
// expect 1: i32 220 220 220

extern "C" __global__ void segments(const int* in, int* out) {
    int x = in[threadIdx.x];
    for (int d = 4; d > 0; d /= 2) x += __shfl_down_sync(0xffffffffu, x, d, 8);
    out[threadIdx.x] = __shfl_sync(0xffffffffu, x, 0, 8);
}
