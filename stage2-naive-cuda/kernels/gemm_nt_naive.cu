// GEMM_NT, naive: c = a * b^T, one thread per element of c.
//
// Idea: each thread multiplies one row of `a` by one row of `b`. The threads of a warp compute neighbouring elements of a
// row of `c`, so each of them reads another row of `b`. Their addresses are a whole row apart: one request takes 32
// sectors, the most that it can. The tiled kernel removes this.
//
// Grid:   x = ceil(n / 32) * ceil(m / 8) * B * H blocks, the tiles of a row of `c` first. One dimension, because only x
//         may be larger than 65,535.
// Block:  (32, 8): a tile of 8 rows and 32 columns of `c`.
// Shared: none.
// Reads:  a [B, H, m, k], b [B, H / group, n, k]. Writes: c [B, H, m, n].
// k = 0 gives c = 0.
//
// launch: grid=78 block=32,8
// args: f32[8000]=random f32[5760]=random f32[14400]=uninit {i64=8000,4000,40} {i64=5760,2880,40} {i64=14400,7200,72}
// args: i32=2 i32=1 i32=100 i32=72 i32=40

struct Strides {  // in elements; columns are contiguous
    long long batch, head, row;
};

constexpr int TILE_M = 8;
constexpr int TILE_N = 32;

// ANCHOR: kernel
extern "C" __global__ void __launch_bounds__(TILE_M * TILE_N) gemm_nt_naive(
    const float* a,     // [B, H, m, k] f32
    const float* b,     // [B, H / group, n, k] f32
    float* c,           // [B, H, m, n] f32
    Strides a_strides,
    Strides b_strides,
    Strides c_strides,
    int heads,          // H
    int group,          // heads of `a` that share one head of `b`
    int m, int n, int k
) {
    const int tiles_n = (n + TILE_N - 1) / TILE_N;
    const int tiles_m = (m + TILE_M - 1) / TILE_M;
    const int tile_n = blockIdx.x % tiles_n;
    const int tile_m = blockIdx.x / tiles_n % tiles_m;
    const int matrix = blockIdx.x / tiles_n / tiles_m;
    const int batch = matrix / heads;
    const int head = matrix % heads;

    const int row = tile_m * TILE_M + threadIdx.y;
    const int column = tile_n * TILE_N + threadIdx.x;
    if (row >= m || column >= n) {
        return;
    }

    const float* a_row = a + batch * a_strides.batch + head * a_strides.head + row * a_strides.row;
    const float* b_row = b + batch * b_strides.batch + head / group * b_strides.head + column * b_strides.row;
    // ANCHOR: inner_product
    float sum = 0.0f;
    for (int p = 0; p < k; p++) {
        sum += a_row[p] * b_row[p];
    }
    // ANCHOR_END: inner_product

    // ANCHOR: write
    c[batch * c_strides.batch + head * c_strides.head + row * c_strides.row + column] = sum;
    // ANCHOR_END: write
}
// ANCHOR_END: kernel
