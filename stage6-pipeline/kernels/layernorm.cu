// Layer normalisation of each row: y = (x - mean) / sqrt(var + epsilon) * weight + bias.
//
// Grid:    n blocks, one per row. Block: BLOCK threads (a power of two, given at compile time).
// Shared:  BLOCK floats (static).
// Reads:   x, weight, bias. Writes: y. x and y may be the same array.
//
// Two passes over the row: first the mean, then the variance of (x - mean). The one-pass form
// E[x^2] - mean^2 subtracts two large, nearly equal numbers when the mean is large against the
// spread, and f32 has no digits left for the difference.
//
// launch: grid=6 block=128
// define: BLOCK=128
// args: f32[1800]=uninit f32[1800]=random f32[300]=ones f32[300]=zeros f32=1e-5 u32=300

static_assert(BLOCK >= 2 && (BLOCK & (BLOCK - 1)) == 0, "the tree reduction halves BLOCK down to 1");

// ANCHOR: block_sum
// The sum of `value` over all threads of the block, returned to each of them.
__device__ float block_sum(float value, float* partial_smem) {
    partial_smem[threadIdx.x] = value;
    __syncthreads();  // so that every partial is written before another thread adds it

    for (unsigned stride = BLOCK / 2; stride > 0; stride /= 2) {
        if (threadIdx.x < stride) {
            partial_smem[threadIdx.x] += partial_smem[threadIdx.x + stride];
        }
        __syncthreads();  // so that the next, narrower step reads finished sums
    }
    const float sum = partial_smem[0];
    __syncthreads();  // so that no thread starts the next reduction while another still reads [0]
    return sum;
}
// ANCHOR_END: block_sum

extern "C" __global__ void layernorm(float* y,             // [n, C] f32
                                     const float* x,       // [n, C] f32
                                     const float* weight,  // [C] f32
                                     const float* bias,    // [C] f32
                                     float epsilon, unsigned C) {
    __shared__ float partial_smem[BLOCK];
    const float* x_row = x + (size_t)blockIdx.x * C;
    float* y_row = y + (size_t)blockIdx.x * C;

    float sum = 0.0f;
    for (unsigned c = threadIdx.x; c < C; c += BLOCK) {
        sum += x_row[c];
    }
    const float mean = block_sum(sum, partial_smem) / (float)C;

    float squares = 0.0f;
    for (unsigned c = threadIdx.x; c < C; c += BLOCK) {
        const float centred = x_row[c] - mean;
        squares += centred * centred;
    }
    const float variance = block_sum(squares, partial_smem) / (float)C;

    const float inverse_deviation = 1.0f / sqrtf(variance + epsilon);
    for (unsigned c = threadIdx.x; c < C; c += BLOCK) {
        y_row[c] = (x_row[c] - mean) * inverse_deviation * weight[c] + bias[c];
    }
}
