// A three-point stencil reads its neighbours' elements with no barrier after the load.
//
// launch: grid=2 block=64
// args: f32[128]=iota f32[128]=zeros
// bug: shared race

extern "C" __global__ void blur(const float* in, float* out) {
    __shared__ float tile[66];
    int t = threadIdx.x, i = blockIdx.x * 64 + t;
    for (int j = t; j < 66; j += 64) tile[j] = 0.0f;  // the borders stay zero
    __syncthreads();
    tile[t + 1] = in[i];
    out[i] = tile[t] + tile[t + 1] + tile[t + 2];  // BUG
}
