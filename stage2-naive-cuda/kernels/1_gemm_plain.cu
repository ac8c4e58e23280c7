// Matrix product, plain: c = a * b or c = a * b^T, one thread per element of c.
//
// Idea: each thread multiplies a row of `a` by a column of `b`, element by element. Neighbouring
// threads compute neighbouring elements of a row of `c`. The batch is a row of matrices, one after
// the other.
//
// Constants: TRANSPOSED, which the host defines: 1 if `b` is stored transposed, as k is in q * k^T.
// Grid:   (batch, ceil(n / 32), ceil(m / 8)): matrices first, because only x may exceed 65,535.
// Block:  (32, 8): a tile of 8 rows and 32 columns of `c`.
// Shared: none.
// Reads:  a, b. Writes: c. k = 0 gives c = 0.
// What limits it now: loads. If TRANSPOSED, the threads of a warp read 32 rows of `b` at once, and
// a request takes 32 sectors, the most that it can. In both products `b` is read m times and `a` n
// times, because no thread keeps a value for another.
//
// launch: grid=2,3,13 block=32,8
// define: TRANSPOSED=1
// args: f32[8000]=random f32[5760]=random f32[14400]=uninit i32=100 i32=72 i32=40

constexpr int TILE_M = 8;
constexpr int TILE_N = 32;

// ANCHOR: kernel
extern "C" __global__ void __launch_bounds__(TILE_M * TILE_N) gemm(
    const float* a,  // [batch, m, k] f32
    const float* b,  // [batch, k, n] f32; [batch, n, k] if TRANSPOSED
    float* c,        // [batch, m, n] f32
    int m, int n, int k
) {
    const long long matrix = blockIdx.x;
    const int row = blockIdx.z * TILE_M + threadIdx.y;
    const int column = blockIdx.y * TILE_N + threadIdx.x;
    if (row >= m || column >= n) {
        return;
    }
    const float* a_row = a + (matrix * m + row) * k;
    b += matrix * n * k;
    c += matrix * m * n;

    // ANCHOR: inner_product
    float sum = 0.0f;
    for (long long p = 0; p < k; p++) {
        sum += a_row[p] * (TRANSPOSED ? b[(long long)column * k + p] : b[p * n + column]);
    }
    // ANCHOR_END: inner_product
    // ANCHOR: write
    c[(long long)row * n + column] = sum;
    // ANCHOR_END: write
}
// ANCHOR_END: kernel
