// A tiled matrix product multiplies before all of the tile is there.
//
// launch: grid=1 block=16,16
// args: f32[512]=iota f32[512]=ones f32[256]=zeros
// bug: shared race

extern "C" __global__ void gemm(const float* a, const float* b, float* c) {
    __shared__ float a_smem[16][16], b_smem[16][16];
    int tx = threadIdx.x, ty = threadIdx.y;
    a_smem[ty][tx] = b_smem[ty][tx] = 0.0f;  // a defined start
    float sum = 0.0f;
    for (int k0 = 0; k0 < 32; k0 += 16) {
        __syncthreads();
        a_smem[ty][tx] = a[ty * 32 + k0 + tx];
        b_smem[ty][tx] = b[(k0 + ty) * 16 + tx];
        for (int k = 0; k < 16; k++) sum += a_smem[ty][k] * b_smem[k][tx];  // BUG
    }
    c[ty * 16 + tx] = sum;
}
