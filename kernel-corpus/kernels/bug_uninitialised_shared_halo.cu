// A tile has room for its halo, but the halo is loaded at the ends of the array only.
//
// launch: grid=2 block=32
// args: f32[64]=iota f32[64]=zeros
// bug: uninitialised shared

extern "C" __global__ void blur(const float* in, float* out) {
    __shared__ float tile[34];
    int t = threadIdx.x, i = blockIdx.x * 32 + t;
    tile[t + 1] = in[i];
    if (i == 0) tile[0] = 0.0f;
    if (i == 63) tile[33] = 0.0f;
    __syncthreads();
    out[i] = tile[t] + tile[t + 1] + tile[t + 2];  // BUG
}
