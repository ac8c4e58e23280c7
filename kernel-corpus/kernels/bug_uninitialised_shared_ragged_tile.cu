// The last tile is filled as far as the data goes, and summed to its end.
//
// launch: grid=2 block=64
// args: f32[100]=iota f32[2]=zeros i32=100
// bug: uninitialised shared

extern "C" __global__ void tile_sums(const float* in, float* out, int n) {
    __shared__ float tile[64];
    int t = threadIdx.x, i = blockIdx.x * 64 + t;
    if (i < n) tile[t] = in[i];
    __syncthreads();
    if (t == 0) {
        float sum = 0.0f;
        for (int j = 0; j < 64; j++) sum += tile[j];  // BUG
        out[blockIdx.x] = sum;
    }
}
