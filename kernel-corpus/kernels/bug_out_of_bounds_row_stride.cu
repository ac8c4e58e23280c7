// The transposed matrix has rows of 8, but is written with rows of 10.
//
// launch: grid=1 block=10,8
// args: f32[80]=iota f32[80]=zeros
// bug: out of bounds

constexpr int ROWS = 8, COLS = 10;
extern "C" __global__ void transpose(const float* in, float* out) {
    int col = threadIdx.x, row = threadIdx.y;
    if (row < ROWS && col < COLS) {
        out[col * COLS + row] = in[row * COLS + col];  // BUG
    }
}
