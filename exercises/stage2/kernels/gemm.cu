// Matrix product, tiled: c = a * b or c = a * b^T through shared memory, one
// thread per element of c.
//
// Idea: a block computes a TILE x TILE tile of `c`, in steps of TILE along k. In each step every
// thread loads one element of `a` and one of `b` into shared memory, then multiplies a row of one
// tile by a column of the other. Each element is read from global memory once per block instead of
// TILE times.
// The factor of row p and column j is b[p * n + j]; if TRANSPOSED it is b[j * k + p].
// Sizes need not be multiples of TILE: beyond the edges a tile holds 0. Threads beyond the edge of
// `c` stay, because they load elements and take part in the barriers. k = 0 gives c = 0.
//
// Constants: TRANSPOSED, 1 if `b` is stored transposed, as k is in q * k^T; else 0.
// Grid:   (batch, ceil(n / 16), ceil(m / 16)): matrices first, because only x may exceed 65,535.
// Block:  (16, 16): x along the columns of `c`, y along its rows.
// Shared: two tiles, static.
// Reads:  a, b. Writes: c.
//
// launch: grid=2,5,7 block=16,16
// define: TRANSPOSED=1
// args: f32[8000]=random f32[5760]=random f32[14400]=uninit i32=100 i32=72 i32=40

constexpr int TILE = 16;

extern "C" __global__ void __launch_bounds__(TILE * TILE) gemm(
    const float* a,  // [batch, m, k] f32
    const float* b,  // [batch, k, n] f32; [batch, n, k] if TRANSPOSED
    float* c,        // [batch, m, n] f32
    int m, int n, int k
) {
    // The matrices of this block.
    const long long matrix = blockIdx.x;
    a += matrix * m * k;
    b += matrix * n * k;
    c += matrix * m * n;

    // TODO, task gemm.
}
