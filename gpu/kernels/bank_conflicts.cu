// Loads of a column of a matrix in shared memory: plain, padded and swizzled.
//
// Idea: the words of a column are 32 apart, all in one bank; with rows of 33 words, or with the
// columns of each row exchanged, they are in 32 banks. Shown by `gpu trace` and `gpu picture`.
// Grid: 1. Block: 32 threads, one warp.
// Shared: three tiles, 12,416 bytes.
// Reads: matrix. Writes: sums, three times column `column` plus even words of the first two rows.
//
// launch: grid=1 block=32
// args: f32[1024]=iota f32[32]=uninit i32=5
// expect 1: f32 15 113 211 309 407 505 603 701 799 897 995 1093 1191 1289 1387 1485 1583 1681 1779 1877 1975 2073 2171
// expect 1: f32 2269 2367 2465 2563 2661 2759 2857 2955 3053

constexpr int N = 32;

extern "C" __global__ void bank_conflicts(const float* matrix,  // [N, N] f32
                                          float* sums,          // [N] f32
                                          int column) {         // 0 … N - 1
    // ANCHOR: tiles
    __shared__ float tile[N][N];
    __shared__ float padded[N][N + 1];
    __shared__ float swizzled[N][N];
    // ANCHOR_END: tiles
    int x = threadIdx.x;
    for (int y = 0; y < N; ++y) {
        tile[y][x] = matrix[N * y + x];
        padded[y][x] = tile[y][x];
        swizzled[y][x ^ y] = tile[y][x];  // row y: column x lies at x ^ y
    }
    __syncwarp();  // so that no lane reads a word that another has not stored yet
    // ANCHOR: columns
    float plain = tile[x][column];
    float apart = padded[x][column];
    float exchanged = swizzled[x][column ^ x];
    float two_rows = tile[x / 16][2 * x % N];
    // ANCHOR_END: columns
    sums[x] = plain + apart + exchanged + two_rows;
}
