// Rows of 32 are stored 16 apart, so that two threads write one element.
//
// launch: grid=1 block=32,4
// args: f32[128]=iota f32[128]=zeros
// bug: shared race

extern "C" __global__ void copy_tile(const float* in, float* out) {
    __shared__ float tile[128];
    int tx = threadIdx.x, ty = threadIdx.y;
    tile[ty * 16 + tx] = in[ty * 32 + tx];  // BUG
    __syncthreads();
    out[ty * 32 + tx] = tile[ty * 16 + tx];
}
