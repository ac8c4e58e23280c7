// Rows are addressed as if each had a pad of one element, but the tile was declared without: its
// last rows lie in the next array.
//
// launch: grid=1 block=16,16
// args: f32[256]=iota f32[256]=zeros
// bug: out of bounds

extern "C" __global__ void transpose(const float* in, float* out) {
    __shared__ float tile[16 * 16];
    __shared__ float scale[16];
    int x = threadIdx.x, y = threadIdx.y;
    if (y == 0) scale[x] = 1.0f + x;
    __syncthreads();
    tile[y * 17 + x] = in[y * 16 + x] * scale[x];  // BUG
    __syncthreads();
    out[y * 16 + x] = tile[x * 17 + y];  // BUG
}
