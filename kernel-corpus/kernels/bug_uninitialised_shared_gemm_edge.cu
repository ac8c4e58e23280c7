// A tiled product skips what lies outside the matrix instead of filling the tile with zeros.
//
// launch: grid=1 block=8,8
// args: f32[96]=iota f32[96]=ones f32[64]=zeros i32=12
// bug: uninitialised shared

extern "C" __global__ void gemm(const float* a, const float* b, float* c, int k_size) {
    __shared__ float a_smem[8][16], b_smem[16][8];
    int tx = threadIdx.x, ty = threadIdx.y;
    for (int k = tx; k < 16; k += 8) {
        if (k < k_size) a_smem[ty][k] = a[ty * k_size + k];
    }
    for (int k = ty; k < 16; k += 8) b_smem[k][tx] = k < k_size ? b[k * 8 + tx] : 0.0f;
    __syncthreads();
    float sum = 0.0f;
    for (int k = 0; k < 16; k++) sum += a_smem[ty][k] * b_smem[k][tx];  // BUG
    c[ty * 8 + tx] = sum;
}
