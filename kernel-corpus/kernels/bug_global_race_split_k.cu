// Two blocks share a dot product and add their halves to one element without an atomic.
//
// launch: grid=1,2 block=32
// args: f32[2048]=ones f32[64]=iota f32[32]=zeros
// bug: global race

extern "C" __global__ void matvec(const float* a, const float* x, float* y) {
    int row = threadIdx.x, k0 = blockIdx.y * 32;
    float sum = 0.0f;
    for (int k = k0; k < k0 + 32; k++) sum += a[row * 64 + k] * x[k];
    y[row] += sum;  // UPDATE // BUG
}
