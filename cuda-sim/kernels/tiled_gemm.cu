// C = A · B for square matrices: the benchmark of the simulator's speed.
//
// grid: (n / TILE, n / TILE) blocks; block: (TILE, TILE) threads, one output each; shared memory:
// two tiles reads a, b; writes c; n is a multiple of TILE

constexpr int TILE = 16;

extern "C" __global__ void tiled_gemm(const float* a,  // [n, n] f32
                                      const float* b,  // [n, n] f32
                                      float* c,        // [n, n] f32
                                      int n) {
    __shared__ float a_smem[TILE][TILE];
    __shared__ float b_smem[TILE][TILE];
    int row = blockIdx.y * TILE + threadIdx.y;
    int column = blockIdx.x * TILE + threadIdx.x;
    float sum = 0.0f;
    for (int tile = 0; tile < n; tile += TILE) {
        a_smem[threadIdx.y][threadIdx.x] = a[row * n + tile + threadIdx.x];
        b_smem[threadIdx.y][threadIdx.x] = b[(tile + threadIdx.y) * n + column];
        __syncthreads();  // so that the tiles are whole before any thread reads them
        for (int k = 0; k < TILE; ++k) sum += a_smem[threadIdx.y][k] * b_smem[k][threadIdx.x];
        __syncthreads();  // so that no thread loads the next tiles while another still reads these
    }
    c[row * n + column] = sum;
}
