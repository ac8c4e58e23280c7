// Warp-synchronous code of the time before Volta: rounds of a reduction without __syncwarp.
//
// launch: grid=1 block=64
// args: f32[64]=iota f32[2]=zeros
// bug: shared race

extern "C" __global__ void reduce(const float* in, float* out) {
    __shared__ float sums[2][32];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    sums[warp][lane] = in[threadIdx.x];
    __syncwarp();
    for (int half = 16; half > 0; half /= 2) {
        if (lane < half) sums[warp][lane] += sums[warp][lane + half];  // BUG
    }
    if (lane == 0) out[warp] = sums[warp][0];
}
