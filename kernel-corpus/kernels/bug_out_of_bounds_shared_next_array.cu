// The sum of a window of three reads one element past the tile, which is the
// first one of the next array.
//
// launch: grid=1 block=64
// args: f32[66]=iota f32[64]=zeros
// bug: out of bounds

extern "C" __global__ void smooth(const float* in, float* out) {
    __shared__ float tile[65];
    __shared__ float weights[3];
    int t = threadIdx.x;
    tile[t] = in[t];
    if (t == 0) tile[64] = in[64];
    if (t < 3) weights[t] = 0.25f + 0.25f * (t == 1);
    __syncthreads();
    float sum = 0.0f;
    for (int i = 0; i < 3; i++) sum += weights[i] * tile[t + i];  // BUG
    out[t] = sum;
}
