// GEMM_NT, tiled: c = a * b^T through shared memory, one thread per element of c.
//
// Idea: as gemm_nn_tiled. Each row of 16 threads loads 16 neighbouring elements of a row of `b`. A warp then reads a
// column of that tile, which transposes it. A row of the tile has 17 floats, of which the last is unused, so that the 16
// elements of a column lie in different banks: no bank conflicts.
//
// Grid:   x = ceil(n / 16) * ceil(m / 16) * B * H blocks, the tiles of a row of `c` first.
// Block:  (16, 16): x along the columns of `c`, y along its rows.
// Shared: (16 * 16 + 16 * 17) * 4 bytes = 2,112 bytes, static.
// Reads:  a [B, H, m, k], b [B, H / group, n, k]. Writes: c [B, H, m, n].
// k = 0 gives c = 0.
// Since the naive kernel: two tiles in shared memory. Threads beyond the edge of `c` stay, because they load elements and
// take part in the barriers.
//
// launch: grid=70 block=16,16
// args: f32[8000]=random f32[5760]=random f32[14400]=uninit {i64=8000,4000,40} {i64=5760,2880,40} {i64=14400,7200,72}
// args: i32=2 i32=1 i32=100 i32=72 i32=40

struct Strides {  // in elements; columns are contiguous
    long long batch, head, row;
};

constexpr int TILE = 16;

// ANCHOR: kernel
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
    __shared__ float a_smem[TILE][TILE];      // [row of c][p]
    __shared__ float b_smem[TILE][TILE + 1];  // [column of c][p], padded

    const int tiles_n = (n + TILE - 1) / TILE;
    const int tiles_m = (m + TILE - 1) / TILE;
    const int tile_n = blockIdx.x % tiles_n;
    const int tile_m = blockIdx.x / tiles_n % tiles_m;
    const int matrix = blockIdx.x / tiles_n / tiles_m;
    const int batch = matrix / heads;
    const int head = matrix % heads;

    const int x = threadIdx.x;
    const int y = threadIdx.y;
    const int row = tile_m * TILE + y;
    const int column = tile_n * TILE + x;
    const int b_load = tile_n * TILE + y;  // the row of `b` that this thread loads from; it computes with row `column`
    const float* a_row = a + batch * a_strides.batch + head * a_strides.head + row * a_strides.row;
    const float* b_row = b + batch * b_strides.batch + head / group * b_strides.head + b_load * b_strides.row;

    float sum = 0.0f;
    for (int k0 = 0; k0 < k; k0 += TILE) {
        // ANCHOR: tile_load
        // Beyond the edges both tiles hold 0, which adds nothing to the sum.
        a_smem[y][x] = row < m && k0 + x < k ? a_row[k0 + x] : 0.0f;
        b_smem[y][x] = b_load < n && k0 + x < k ? b_row[k0 + x] : 0.0f;
        __syncthreads();  // so that no thread reads the tiles before every thread has stored its elements
        // ANCHOR_END: tile_load

        // ANCHOR: inner_product
        for (int p = 0; p < TILE; p++) {
            sum += a_smem[y][p] * b_smem[x][p];
        }
        // ANCHOR_END: inner_product
        __syncthreads();  // so that no thread stores the next tiles while another still reads these
    }
    // ANCHOR: write
    if (row < m && column < n) {
        c[batch * c_strides.batch + head * c_strides.head + row * c_strides.row + column] = sum;
    }
    // ANCHOR_END: write
}
// ANCHOR_END: kernel
