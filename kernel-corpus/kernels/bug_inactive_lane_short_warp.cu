// A block of 48: the second warp has 16 lanes, and sums over 32.
//
// launch: grid=1 block=48
// args: f32[48]=iota f32[2]=zeros
// bug: inactive lane

extern "C" __global__ void warp_sums(const float* in, float* out) {
    int t = threadIdx.x;
    float x = in[t];
    for (int d = 16; d > 0; d /= 2) x += __shfl_xor_sync(0xffffffffu, x, d);  // BUG
    if (t % 32 == 0) out[t / 32] = x;
}
