// The last thread reads one element past the tile.
//
// launch: grid=1 block=64
// args: f32[64]=iota f32[64]=zeros
// bug: out of bounds

extern "C" __global__ void difference(const float* in, float* out) {
    __shared__ float tile[64];
    int t = threadIdx.x;
    tile[t] = in[t];
    __syncthreads();
    out[t] = tile[t + 1] - tile[t];  // BUG
}
