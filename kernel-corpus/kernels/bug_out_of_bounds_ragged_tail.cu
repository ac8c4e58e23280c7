// The grid is rounded up, and nobody tests the index.
//
// launch: grid=4 block=64
// args: f32[250]=iota f32[250]=zeros f32=3
// bug: out of bounds

extern "C" __global__ void saxpy(const float* x, float* y, float a) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = a * x[i] + y[i];  // BUG
}
