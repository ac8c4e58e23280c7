// Argmax of values that travel with their index, which is set only where a value is
// above 0. The largest is 0.
//
// launch: grid=1 block=64
// args: f32[64]=zeros f32[64]=iota f32[1]=zeros
// bug: uninitialised shared

struct Best {
    float value;
    int index;
};

extern "C" __global__ void argmax(const float* in, const float* weights, float* out) {
    __shared__ Best best[64];
    int t = threadIdx.x;
    best[t].value = in[t];
    if (in[t] > 0.0f) best[t].index = t;
    __syncthreads();
    for (int step = 32; step > 0; step /= 2) {
        if (t < step) {
            Best a = best[t], b = best[t + step];
            best[t] = b.value > a.value ? b : a;
        }
        __syncthreads();
    }
    if (t == 0) {
        *out = weights[best[0].index];  // BUG
    }
}
