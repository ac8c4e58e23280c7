// Matrix product, register-tiled: c = a * b or c = a * b^T, 4 x 4 elements of c in each thread.
//
// Idea: a thread computes OWN rows and OWN columns of `c`. For each p it reads OWN elements of
// either tile from shared memory into registers, and multiplies each by each: 8 reads for 16
// products, where rung 2 needs 32. Its rows and columns lie SIDE apart, so that neighbouring
// threads read, load and store neighbouring elements.
//
// Constants: TRANSPOSED, 1 if `b` is stored transposed; else 0.
// Grid:   (batch, ceil(n / 64), ceil(m / 64)).
// Block:  (16, 16): x along the columns of `c`, y along its rows.
// Shared: (64 * 16 + 16 * 65) * 4 bytes = 8,256 bytes, static; 8,192 if not TRANSPOSED.
// Reads:  a, b. Writes: c. k = 0 gives c = 0.
// Since rung 2: a thread has a tile of `c` in registers, and a block one of 64 x 64.
// What limits it now: shared memory and the issue of instructions, alike: two of five instructions
// are products. Larger tiles in registers and reads of four floats at once go further: rung 2 of
// stage 4. A tile of 64 x 64 also makes few blocks: 128 for p v of 32 heads, less than one for each
// SM of an H100, and little more for an A100, whose 108 SMs wait for the 20 that have two.
//
// launch: grid=2,2,2 block=16,16
// define: TRANSPOSED=1
// args: f32[8000]=random f32[5760]=random f32[14400]=uninit i32=100 i32=72 i32=40

constexpr int SIDE = 16;         // threads along a side of the block, and the step along k
constexpr int OWN = 4;           // rows and columns of `c` of a thread
constexpr int TILE = SIDE * OWN; // rows and columns of `c` of the block

// ANCHOR: kernel
extern "C" __global__ void __launch_bounds__(SIDE * SIDE) gemm(
    const float* a,  // [batch, m, k] f32
    const float* b,  // [batch, k, n] f32; [batch, n, k] if TRANSPOSED
    float* c,        // [batch, m, n] f32
    int m, int n, int k
) {
    __shared__ float a_smem[TILE][SIDE];               // [row of c][p]
    __shared__ float b_smem[SIDE][TILE + TRANSPOSED];  // [p][column of c], padded as in rung 2

    const long long matrix = blockIdx.x;
    const int x = threadIdx.x;
    const int y = threadIdx.y;
    const int row0 = blockIdx.z * TILE;
    const int column0 = blockIdx.y * TILE;
    a += matrix * m * k;
    b += matrix * n * k;
    c += matrix * m * n;

    float c_reg[OWN][OWN] = {};
    for (int k0 = 0; k0 < k; k0 += SIDE) {
        // ANCHOR: tile_load
        for (int i = 0; i < OWN; i++) {
            const int y_own = y + i * SIDE;
            const int row = row0 + y_own;
            a_smem[y_own][x] = row < m && k0 + x < k ? a[(long long)row * k + k0 + x] : 0.0f;
            if (TRANSPOSED) {
                const int b_row = column0 + y_own;
                b_smem[x][y_own] = b_row < n && k0 + x < k ? b[(long long)b_row * k + k0 + x] : 0.0f;
            } else {
                const int x_own = x + i * SIDE;
                const int column = column0 + x_own;
                b_smem[y][x_own] = column < n && k0 + y < k ? b[(long long)(k0 + y) * n + column] : 0.0f;
            }
        }
        __syncthreads();  // so that no thread reads the tiles before every thread has stored its elements
        // ANCHOR_END: tile_load

        // ANCHOR: inner_product
        for (int p = 0; p < SIDE; p++) {
            float a_reg[OWN];
            float b_reg[OWN];
            for (int i = 0; i < OWN; i++) {
                a_reg[i] = a_smem[y + i * SIDE][p];
                b_reg[i] = b_smem[p][x + i * SIDE];
            }
            for (int i = 0; i < OWN; i++) {
                for (int j = 0; j < OWN; j++) {
                    c_reg[i][j] += a_reg[i] * b_reg[j];
                }
            }
        }
        // ANCHOR_END: inner_product
        __syncthreads();  // so that no thread stores the next tiles while another still reads these
    }
    // ANCHOR: write
    for (int i = 0; i < OWN; i++) {
        for (int j = 0; j < OWN; j++) {
            const int row = row0 + y + i * SIDE;
            const int column = column0 + x + j * SIDE;
            if (row < m && column < n) {
                c[(long long)row * n + column] = c_reg[i][j];
            }
        }
    }
    // ANCHOR_END: write
}
// ANCHOR_END: kernel
