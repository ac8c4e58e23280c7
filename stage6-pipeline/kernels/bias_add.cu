// Adds a bias vector to every row, in place: x[i] += bias.
//
// Grid:    x = n blocks, one per row.
// Block:   any size; the threads stride over the C columns.
// Shared:  none.
// Reads:   x, bias. Writes: x.
//
// launch: grid=5 block=64
// args: f32[500]=iota f32[100]=ones u32=100

// ANCHOR: kernel
extern "C" __global__ void bias_add(float* x,           // [n, C] f32
                                    const float* bias,  // [C] f32
                                    unsigned C) {
    float* x_row = x + (size_t)blockIdx.x * C;
    for (unsigned c = threadIdx.x; c < C; c += blockDim.x) {
        x_row[c] += bias[c];
    }
}
// ANCHOR_END: kernel
