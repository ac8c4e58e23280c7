// A stencil writes its input, whose edges the neighbouring blocks read.
//
// launch: grid=4 block=64
// args: f32[256]=iota
// bug: global race

extern "C" __global__ void relax(float* x) {
    __shared__ float tile[66];
    int t = threadIdx.x, i = blockIdx.x * 64 + t;
    tile[t + 1] = x[i];
    if (t == 0) tile[0] = i > 0 ? x[i - 1] : 0.0f;
    if (t == 63) tile[65] = i < 255 ? x[i + 1] : 0.0f;
    __syncthreads();
    x[i] = 0.25f * tile[t] + 0.5f * tile[t + 1] + 0.25f * tile[t + 2];  // BUG
}
