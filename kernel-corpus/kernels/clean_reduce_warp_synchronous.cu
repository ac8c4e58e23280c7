// Rounds of a warp's reduction in shared memory, each closed by __syncwarp.
//
// launch: grid=1 block=64
// args: f32[64]=iota f32[2]=uninit
// bug: none
// expect 1: f32 496 1520

extern "C" __global__ void reduce(const float* in, float* out) {
    __shared__ float sums[2][32];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    sums[warp][lane] = in[threadIdx.x];
    __syncwarp();
    for (int half = 16; half > 0; half /= 2) {
        if (lane < half) sums[warp][lane] += sums[warp][lane + half];
        __syncwarp();
    }
    if (lane == 0) out[warp] = sums[warp][0];
}
