// A tiled product of sizes that no tile divides: what lies outside is zero in the tile.
//
// launch: grid=2,2 block=8,8
// args: f32[110]=iota f32[90]=iota f32[99]=uninit i32=11 i32=9 i32=10
// bug: none
// expect 2: f32 2565 2610 2655 2700 2745 2790 2835 2880 2925 6615 6760 6905 7050 7195 7340 7485 7630 7775 10665
// expect 2: f32 10910 11155 11400 11645 11890 12135 12380 12625 14715 15060 15405 15750 16095 16440 16785 17130
// expect 2: f32 17475 18765 19210 19655 20100 20545 20990 21435 21880 22325 22815 23360 23905 24450 24995 25540
// expect 2: f32 26085 26630 27175 26865 27510 28155 28800 29445 30090 30735 31380 32025 30915 31660 32405 33150
// expect 2: f32 33895 34640 35385 36130 36875 34965 35810 36655 37500 38345 39190 40035 40880 41725 39015 39960
// expect 2: f32 40905 41850 42795 43740 44685 45630 46575 43065 44110 45155 46200 47245 48290 49335 50380 51425

extern "C" __global__ void gemm(const float* a, const float* b, float* c, int m, int n, int k_size) {
    __shared__ float a_smem[8][8], b_smem[8][9];
    int tx = threadIdx.x, ty = threadIdx.y, col = blockIdx.x * 8 + tx, row = blockIdx.y * 8 + ty;
    float sum = 0.0f;
    for (int k0 = 0; k0 < k_size; k0 += 8) {
        a_smem[ty][tx] = row < m && k0 + tx < k_size ? a[row * k_size + k0 + tx] : 0.0f;
        b_smem[ty][tx] = col < n && k0 + ty < k_size ? b[(k0 + ty) * n + col] : 0.0f;
        __syncthreads();
        for (int k = 0; k < 8; k++) sum += a_smem[ty][k] * b_smem[k][tx];
        __syncthreads();
    }
    if (row < m && col < n) c[row * n + col] = sum;
}
