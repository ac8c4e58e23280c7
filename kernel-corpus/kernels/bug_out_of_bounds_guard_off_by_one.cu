// The guard lets index n through.
//
// launch: grid=2 block=64
// args: f32[100]=iota f32[100]=zeros i32=100
// bug: out of bounds

extern "C" __global__ void scale(const float* in, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i <= n) out[i] = 2.0f * in[i];  // BUG
}
