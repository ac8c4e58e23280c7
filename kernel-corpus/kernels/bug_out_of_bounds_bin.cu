// A value that equals the upper limit goes to a bin that does not exist.
//
// launch: grid=1 block=65
// args: f32[65]=iota i32[8]=zeros
// bug: out of bounds

extern "C" __global__ void histogram(const float* in, int* out) {
    __shared__ int counts[8];
    int t = threadIdx.x;
    if (t < 8) counts[t] = 0;
    __syncthreads();
    int bin = static_cast<int>(in[t] / 64.0f * 8.0f);
    atomicAdd(&counts[bin], 1);  // BUG
    __syncthreads();
    if (t < 8) out[t] = counts[t];
}
