// A tiled matrix product loads the next tiles while slow warps still multiply the last ones.
//
// launch: grid=2,1 block=16,16
// args: f32[768]=iota f32[1536]=ones f32[512]=zeros
// bug: shared race

constexpr int K = 48, N = 32;
extern "C" __global__ void gemm(const float* a, const float* b, float* c) {
    __shared__ float a_smem[16][16], b_smem[16][16];
    int tx = threadIdx.x, ty = threadIdx.y, col = blockIdx.x * 16 + tx;
    float sum = 0.0f;
    for (int k0 = 0; k0 < K; k0 += 16) {
        a_smem[ty][tx] = a[ty * K + k0 + tx];
        b_smem[ty][tx] = b[(k0 + ty) * N + col];
        __syncthreads();
        for (int k = 0; k < 16; k++) sum += a_smem[ty][k] * b_smem[k][tx];  // BUG
    }
    c[ty * N + col] = sum;
}
