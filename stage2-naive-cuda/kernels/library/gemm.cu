// Matrix product of the library: c = a * b or c = a * b^T, for strided tensors and grouped heads.
//
// Idea: rung 2 of the ladder, ../2_gemm_tiled.cu.
//
// Constants: TRANSPOSED, 1 if `b` is stored transposed; else 0.
// Grid:   x = ceil(n / 16) * ceil(m / 16) * B * H blocks, the tiles of a row of `c` first.
// Block:  (16, 16): x along the columns of `c`, y along its rows.
// Shared: (16 * 16 + 16 * 17) * 4 bytes = 2,112 bytes, static.
// Reads:  a [B, H, m, k]; b [B, H / group, k, n], or [B, H / group, n, k] if TRANSPOSED.
// Writes: c [B, H, m, n]. k = 0 gives c = 0.
// More than rung 2: strides, and heads of `a` that share one of `b`. The grid has one dimension,
// because only x may exceed 65,535, and tiles of a matrix lie together in the order of blocks.
//
// launch: grid=70 block=16,16
// define: TRANSPOSED=1
// args: f32[8000]=random f32[5760]=random f32[14400]=uninit {i64=8000,4000,40} {i64=5760,2880,40}
// args: {i64=14400,7200,72}
// args: i32=2 i32=1 i32=100 i32=72 i32=40

struct Strides {  // in elements; columns are contiguous
    long long batch, head, row;
};

constexpr int TILE = 16;

extern "C" __global__ void __launch_bounds__(TILE * TILE) gemm(
    const float* a,     // [B, H, m, k] f32
    const float* b,     // [B, H / group, k, n] f32; [B, H / group, n, k] if TRANSPOSED
    float* c,           // [B, H, m, n] f32
    Strides a_strides,
    Strides b_strides,
    Strides c_strides,
    int heads,          // H
    int group,          // heads of `a` that share one head of `b`
    int m, int n, int k
) {
    __shared__ float a_smem[TILE][TILE];               // [row of c][p]
    __shared__ float b_smem[TILE][TILE + TRANSPOSED];  // [p][column of c], padded if TRANSPOSED

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
    const float* a_row = a + batch * a_strides.batch + head * a_strides.head + row * a_strides.row;
    const int b_row = tile_n * TILE + y;  // if TRANSPOSED, this thread loads from this row of `b`
    b += batch * b_strides.batch + head / group * b_strides.head;
    const float* b_load = TRANSPOSED ? b + b_row * b_strides.row : b + column;

    float sum = 0.0f;
    for (int k0 = 0; k0 < k; k0 += TILE) {
        // Beyond the edges both tiles hold 0, which adds nothing to the sum.
        a_smem[y][x] = row < m && k0 + x < k ? a_row[k0 + x] : 0.0f;
        if (TRANSPOSED) {
            b_smem[x][y] = b_row < n && k0 + x < k ? b_load[k0 + x] : 0.0f;
        } else {
            b_smem[y][x] = column < n && k0 + y < k ? b_load[(k0 + y) * b_strides.row] : 0.0f;
        }
        __syncthreads();  // so that no thread reads the tiles before every thread has stored its elements

        for (int p = 0; p < TILE; p++) {
            sum += a_smem[y][p] * b_smem[p][x];
        }
        __syncthreads();  // so that no thread stores the next tiles while another still reads these
    }
    if (row < m && column < n) {
        c[batch * c_strides.batch + head * c_strides.head + row * c_strides.row + column] = sum;
    }
}
