// The kernel uses two floats a thread, the launch gives one.
//
// launch: grid=1 block=64 shared=256
// args: f32[64]=iota f32[64]=zeros
// bug: out of bounds

extern "C" __global__ void square(const float* in, float* out) {
    extern __shared__ float pool[];
    float* values = pool;
    float* squares = pool + blockDim.x;
    int t = threadIdx.x;
    values[t] = in[t];
    squares[t] = in[t] * in[t];  // BUG
    __syncthreads();
    out[t] = values[63 - t] + squares[63 - t];
}
