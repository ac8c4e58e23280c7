// A tree reduction in shared memory with a barrier in every round.
//
// launch: grid=2 block=128
// args: f32[256]=iota f32[2]=uninit
// bug: none
// expect 1: f32 8128 24512

extern "C" __global__ void reduce(const float* in, float* out) {
    __shared__ float sums[128];
    int t = threadIdx.x;
    sums[t] = in[blockIdx.x * 128 + t];
    __syncthreads();
    for (int half = 64; half > 0; half /= 2) {
        if (t < half) sums[t] += sums[t + half];
        __syncthreads();
    }
    if (t == 0) out[blockIdx.x] = sums[0];
}
