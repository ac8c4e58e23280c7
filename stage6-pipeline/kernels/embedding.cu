// Token embedding plus position embedding: x[i] = wte[tokens[i]] + wpe[first_position + i].
//
// Grid:    x = n blocks, one per token.
// Block:   any size; the threads stride over the C columns.
// Shared:  none.
// Reads:   tokens, the rows of wte and wpe that they name. Writes: x.
// The host has checked that every token is below V and that first_position + n is at most P, because a kernel cannot
// report a bad index: it would read outside the table.
//
// launch: grid=4 block=64
// args: f32[400]=uninit u32[4]={3,0,9,3} f32[1000]=random f32[800]=random u32=2 u32=100

// ANCHOR: kernel
extern "C" __global__ void embedding(float* x,                  // [n, C] f32
                                     const unsigned* tokens,    // [n] u32
                                     const float* wte,          // [V, C] f32
                                     const float* wpe,          // [P, C] f32
                                     unsigned first_position,   // position of tokens[0]
                                     unsigned C) {
    const size_t row = blockIdx.x;
    const float* token_row = wte + (size_t)tokens[row] * C;
    const float* position_row = wpe + (first_position + row) * C;
    float* x_row = x + row * C;

    // ANCHOR: write
    for (unsigned c = threadIdx.x; c < C; c += blockDim.x) {
        x_row[c] = token_row[c] + position_row[c];
    }
    // ANCHOR_END: write
}
// ANCHOR_END: kernel
