// An unsigned index goes below zero and becomes huge.
//
// launch: grid=1 block=64
// args: f32[64]=iota f32[64]=zeros
// bug: out of bounds

extern "C" __global__ void delay(const float* in, float* out) {
    unsigned t = threadIdx.x;
    unsigned from = t - 4;
    if (t < 64) out[t] = in[from];  // BUG
}
