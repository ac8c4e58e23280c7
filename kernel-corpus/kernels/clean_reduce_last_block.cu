// Each block leaves a partial sum; the last to come adds them. Every thread
// fences, as in NVIDIA's sample.
//
// launch: grid=4 block=64
// args: f32[256]=iota f32[4]=uninit u32[1]=zeros f32[1]=uninit
// bug: none
// expect 1: f32 2016 6112 10208 14304
// expect 3: f32 32640

extern "C" __global__ void sum(const float* in, volatile float* partial, unsigned* done, float* out) {
    __shared__ float sums[64];
    __shared__ bool last;
    int t = threadIdx.x;
    sums[t] = in[blockIdx.x * 64 + t];
    __syncthreads();
    for (int half = 32; half > 0; half /= 2) {
        if (t < half) sums[t] += sums[t + half];
        __syncthreads();
    }
    if (t == 0) {
        partial[blockIdx.x] = sums[0];
        __threadfence();  // the sum is there before the count
        last = atomicInc(done, gridDim.x) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && t == 0) {
        __threadfence();
        float total = 0.0f;
        for (int b = 0; b < gridDim.x; b++) total += partial[b];
        *out = total;
    }
}
