// Adds a layer's output, with the bias of its last linear layer, to the residual stream, in place:
// x[i] += y[i] + bias.
//
// Grid:    x = n blocks, one per row.
// Block:   any size; the threads stride over the C columns.
// Shared:  none.
// Reads:   x, y, bias. Writes: x.
// The bias is added here, because a bias_add before this kernel would read and write y once more.
//
// launch: grid=5 block=64
// args: f32[500]=random f32[500]=random f32[100]=random u32=100

// ANCHOR: kernel
extern "C" __global__ void residual_add(float* x,           // [n, C] f32
                                        const float* y,     // [n, C] f32
                                        const float* bias,  // [C] f32
                                        unsigned C) {
    const size_t first = (size_t)blockIdx.x * C;
    for (unsigned c = threadIdx.x; c < C; c += blockDim.x) {
        x[first + c] += y[first + c] + bias[c];
    }
}
// ANCHOR_END: kernel
