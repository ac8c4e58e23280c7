// GEMM_NT, tiled: c = a * b^T through shared memory, one thread per element of c.
//
// Idea: a block computes a TILE x TILE tile of `c`, in steps of TILE along k. In each step every thread loads one element
// of `a` and one of `b` into shared memory, then multiplies a row of one tile by a column of the other. Each element is
// read from global memory once per block instead of TILE times.
// element (p, column) of the factor is b[..., column * b_strides.row + p].
// Sizes need not be multiples of TILE: beyond the edges a tile holds 0. Threads beyond the edge of `c` stay, because they
// load elements and take part in the barriers. k = 0 gives c = 0.
//
// Grid:   x = ceil(n / 16) * ceil(m / 16) * B * H blocks, the tiles of a row of `c` first.
// Block:  (16, 16): x along the columns of `c`, y along its rows.
// Shared: two tiles, static.
// Reads:  a [B, H, m, k], b [B, H / group, n, k]. Writes: c [B, H, m, n].
//
// launch: grid=70 block=16,16
// args: f32[8000]=random f32[5760]=random f32[14400]=uninit {i64=8000,4000,40} {i64=5760,2880,40} {i64=14400,7200,72}
// args: i32=2 i32=1 i32=100 i32=72 i32=40

struct Strides {  // in elements; columns are contiguous
    long long batch, head, row;
};

constexpr int TILE = 16;

extern "C" __global__ void __launch_bounds__(TILE * TILE) gemm_nt_tiled(
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
    // The tile and the matrices of this block.
    const int tiles_n = (n + TILE - 1) / TILE;
    const int tiles_m = (m + TILE - 1) / TILE;
    const int tile_n = blockIdx.x % tiles_n;
    const int tile_m = blockIdx.x / tiles_n % tiles_m;
    const int matrix = blockIdx.x / tiles_n / tiles_m;
    const int batch = matrix / heads;
    const int head = matrix % heads;
    a += batch * a_strides.batch + head * a_strides.head;
    b += batch * b_strides.batch + head / group * b_strides.head;
    c += batch * c_strides.batch + head * c_strides.head;

    // TODO, task gemm.
}
