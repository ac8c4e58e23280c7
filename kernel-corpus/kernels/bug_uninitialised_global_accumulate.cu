// The product is added to an output that nobody has cleared.
//
// launch: grid=1 block=64
// args: f32[64]=iota f32[64]=uninit f32=2
// bug: uninitialised global

extern "C" __global__ void saxpy(const float* x, float* y, float a) {
    int i = threadIdx.x;
    float old = y[i];  // BUG
    y[i] = a * x[i] + old;
}
