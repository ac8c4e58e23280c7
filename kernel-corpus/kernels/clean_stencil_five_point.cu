// A two-dimensional stencil on a ragged plane; the tile's corners are neither written nor read.
//
// launch: grid=2,2 block=8,8
// args: i32[143]=iota i32[143]=uninit i32=11 i32=13
// bug: none
// expect 1: i32 14 12 11 10 9 8 7 6 5 4 3 2 -12 -12 0 0 0 0 0 0 0 0 0 0 0 -26 -25 0 0 0 0 0 0 0 0 0 0 0 -39 -38 0 0
// expect 1: i32 0 0 0 0 0 0 0 0 0 -52 -51 0 0 0 0 0 0 0 0 0 0 0 -65 -64 0 0 0 0 0 0 0 0 0 0 0 -78 -77 0 0 0 0 0 0 0
// expect 1: i32 0 0 0 0 -91 -90 0 0 0 0 0 0 0 0 0 0 0 -104 -103 0 0 0 0 0 0 0 0 0 0 0 -117 -116 0 0 0 0 0 0 0 0 0 0
// expect 1: i32 0 -130 -272 -144 -145 -146 -147 -148 -149 -150 -151 -152 -153 -154 -298

extern "C" __global__ void laplace(const int* in, int* out, int rows, int cols) {
    __shared__ int tile[10][10];
    int tx = threadIdx.x, ty = threadIdx.y, col = blockIdx.x * 8 + tx, row = blockIdx.y * 8 + ty;
    auto at = [&](int r, int c) { return r >= 0 && r < rows && c >= 0 && c < cols ? in[r * cols + c] : 0; };
    tile[ty + 1][tx + 1] = at(row, col);
    if (ty == 0) tile[0][tx + 1] = at(row - 1, col);
    if (ty == 7) tile[9][tx + 1] = at(row + 1, col);
    if (tx == 0) tile[ty + 1][0] = at(row, col - 1);
    if (tx == 7) tile[ty + 1][9] = at(row, col + 1);
    __syncthreads();
    if (row < rows && col < cols) {
        out[row * cols + col] = tile[ty][tx + 1] + tile[ty + 2][tx + 1] + tile[ty + 1][tx] + tile[ty + 1][tx + 2]
            - 4 * tile[ty + 1][tx + 1];
    }
}
