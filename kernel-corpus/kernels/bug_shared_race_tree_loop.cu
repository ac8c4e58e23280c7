// A tree reduction whose rounds are not kept apart: a thread adds what another is still summing.
//
// launch: grid=2 block=128
// args: f32[256]=iota f32[2]=zeros
// bug: shared race

extern "C" __global__ void reduce(const float* in, float* out) {
    __shared__ float sums[128];
    int t = threadIdx.x;
    sums[t] = in[blockIdx.x * 128 + t];
    __syncthreads();
    for (int half = 64; half > 0; half /= 2) {
        if (t < half) sums[t] += sums[t + half];  // BUG
    }
    __syncthreads();
    if (t == 0) out[blockIdx.x] = sums[0];
}
