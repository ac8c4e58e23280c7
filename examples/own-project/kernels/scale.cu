// x = x * by
//
// launch: grid=2 block=128
// args: f32[200]=iota i32=200 f32=0.5

extern "C" __global__ void scale(float* x,  // [n]
                                 int n, float by) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= by;
}
