// A tree reduction whose tile is filled up with zeros beyond the end.
//
// launch: grid=2 block=64
// args: f32[100]=iota f32[2]=uninit i32=100
// bug: none
// expect 1: f32 2016 2934

extern "C" __global__ void reduce(const float* in, float* out, int n) {
    __shared__ float sums[64];
    int t = threadIdx.x, i = blockIdx.x * 64 + t;
    sums[t] = i < n ? in[i] : 0.0f;
    __syncthreads();
    for (int half = 32; half > 0; half /= 2) {
        if (t < half) sums[t] += sums[t + half];
        __syncthreads();
    }
    if (t == 0) out[blockIdx.x] = sums[0];
}
