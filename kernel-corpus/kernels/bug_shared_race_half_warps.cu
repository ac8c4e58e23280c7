// Half-warps synchronise among themselves, but data goes from one half to the other.
//
// launch: grid=1 block=32
// args: f32[32]=iota f32[32]=zeros
// bug: shared race

extern "C" __global__ void swap_halves(const float* in, float* out) {
    __shared__ float row[32];
    int lane = threadIdx.x;
    row[lane] = 0.0f;
    __syncwarp();
    row[lane] = in[lane];
    unsigned half = lane < 16 ? 0x0000ffffu : 0xffff0000u;
    __syncwarp(half);
    out[lane] = row[lane ^ 16];  // BUG
}
