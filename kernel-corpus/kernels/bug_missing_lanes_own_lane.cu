// All 32 lanes run a shuffle whose mask names 16.
//
// launch: grid=1 block=32
// args: f32[32]=iota f32[32]=zeros
// bug: missing lanes

extern "C" __global__ void half_sums(const float* in, float* out) {
    float x = in[threadIdx.x];
    for (int d = 8; d > 0; d /= 2) x += __shfl_xor_sync(0x0000ffffu, x, d);  // BUG
    out[threadIdx.x] = x;
}
