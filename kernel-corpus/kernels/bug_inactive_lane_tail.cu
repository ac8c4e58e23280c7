// Twenty lanes reduce as if they were a power of two, and read lanes that are not there.
//
// launch: grid=1 block=32
// args: f32[20]=iota f32[1]=zeros
// bug: inactive lane

extern "C" __global__ void sum20(const float* in, float* out) {
    int lane = threadIdx.x;
    if (lane < 20) {
        float x = in[lane];
        for (int d = 16; d > 0; d /= 2) x += __shfl_down_sync(0xfffffu, x, d);  // BUG
        if (lane == 0) *out = x;
    }
}
