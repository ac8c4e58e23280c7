// A variable that only one branch sets.
//
// launch: grid=1 block=32
// args: f32[20]=iota f32[32]=zeros i32=20
// bug: uninitialised register

extern "C" __global__ void gather(const float* in, float* out, int n) {
    int t = threadIdx.x;
    float x;
    if (t < n) x = in[t];
    out[t] = x;  // BUG
}
