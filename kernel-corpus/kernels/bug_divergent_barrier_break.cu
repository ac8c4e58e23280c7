// Each thread leaves the loop when its own value has converged, and others wait at the barrier.
//
// launch: grid=1 block=64
// args: f32[64]=iota f32[64]=zeros
// bug: divergent barrier

extern "C" __global__ void halve_until_small(const float* in, float* out) {
    __shared__ float tile[64];
    int t = threadIdx.x;
    float x = in[t];
    for (int step = 0; step < 10; step++) {
        if (x < 1.0f) break;
        x *= 0.5f;
        tile[t] = x;
        __syncthreads();  // BUG
    }
    tile[t] = x;
    __syncthreads();
    out[t] = tile[63 - t];
}
