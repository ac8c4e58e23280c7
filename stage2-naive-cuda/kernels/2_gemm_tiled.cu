// Matrix product, tiled: c = a * b or c = a * b^T by shared memory, one thread per element of c.
//
// Idea: a block computes a TILE x TILE tile of `c`, in steps of TILE along k. In each step every
// thread loads one element of `a` and one of `b` into shared memory, then multiplies a row of one
// tile by a column of the other. Each element is read from global memory once per block instead of
// TILE times. Both tiles are loaded along the rows of their matrix, so that the loads are
// coalesced; a transposed `b` changes rows and columns on its way into shared memory.
//
// Constants: TRANSPOSED, 1 if `b` is stored transposed; else 0.
// Grid:   (batch, ceil(n / 16), ceil(m / 16)).
// Block:  (16, 16): x along the columns of `c`, y along its rows.
// Shared: (16 * 16 + 16 * 17) * 4 bytes = 2,112 bytes, static; 2,048 if not TRANSPOSED.
// Reads:  a, b. Writes: c. k = 0 gives c = 0.
// Since rung 1: two tiles in shared memory. Threads beyond the edge of `c` stay, because they load
// elements and take part in the barriers.
// What limits it now: shared memory. Each product reads two floats there, and the reads take about
// ten times as long as the products.
//
// launch: grid=2,5,7 block=16,16
// define: TRANSPOSED=1
// args: f32[8000]=random f32[5760]=random f32[14400]=uninit i32=100 i32=72 i32=40

constexpr int TILE = 16;

// ANCHOR: kernel
extern "C" __global__ void __launch_bounds__(TILE * TILE) gemm(
    const float* a,  // [batch, m, k] f32
    const float* b,  // [batch, k, n] f32; [batch, n, k] if TRANSPOSED
    float* c,        // [batch, m, n] f32
    int m, int n, int k
) {
    __shared__ float a_smem[TILE][TILE];               // [row of c][p]
    __shared__ float b_smem[TILE][TILE + TRANSPOSED];  // [p][column of c], padded if TRANSPOSED

    const long long matrix = blockIdx.x;
    const int x = threadIdx.x;
    const int y = threadIdx.y;
    const int row = blockIdx.z * TILE + y;
    const int column0 = blockIdx.y * TILE;
    const int column = column0 + x;
    a += matrix * m * k;
    b += matrix * n * k;
    c += matrix * m * n;

    float sum = 0.0f;
    for (int k0 = 0; k0 < k; k0 += TILE) {
        // ANCHOR: tile_load
        // Beyond the edges both tiles hold 0, which adds nothing to the sum.
        a_smem[y][x] = row < m && k0 + x < k ? a[(long long)row * k + k0 + x] : 0.0f;
        if (TRANSPOSED) {
            // The padding: threads with neighbouring x store to rows 17 floats apart, in
            // other banks but for one pair.
            const int b_row = column0 + y;
            b_smem[x][y] = b_row < n && k0 + x < k ? b[(long long)b_row * k + k0 + x] : 0.0f;
        } else {
            b_smem[y][x] = column < n && k0 + y < k ? b[(long long)(k0 + y) * n + column] : 0.0f;
        }
        __syncthreads();  // so that no thread reads the tiles before every thread has stored its elements
        // ANCHOR_END: tile_load

        // ANCHOR: inner_product
        for (int p = 0; p < TILE; p++) {
            sum += a_smem[y][p] * b_smem[p][x];
        }
        // ANCHOR_END: inner_product
        __syncthreads();  // so that no thread stores the next tiles while another still reads these
    }
    // ANCHOR: write
    if (row < m && column < n) {
        c[(long long)row * n + column] = sum;
    }
    // ANCHOR_END: write
}
// ANCHOR_END: kernel
