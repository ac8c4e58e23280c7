// Textbook kernels with shared memory, each with counts that can be derived by hand: what the
// profiler is held against.

#include "prelude.cuh"

constexpr int TILE = 32;
constexpr int ROWS = 8;

// out = in transposed, without shared memory: the loads are coalesced, the stores are not.
// grid: (cols / TILE, rows / ROWS), rounded up; block: (TILE, ROWS)
extern "C" __global__ void transpose_naive(const float* in,  // [rows, cols] f32
                                           float* out,       // [cols, rows] f32
                                           int rows, int cols) {
    int x = blockIdx.x * TILE + threadIdx.x;
    int y = blockIdx.y * ROWS + threadIdx.y;
    if (x < cols && y < rows) out[x * rows + y] = in[y * cols + x];
}

template <int PADDING>
__device__ __forceinline__ void transpose(const float* in, float* out, int rows, int cols) {
    __shared__ float tile[TILE][TILE + PADDING];
    int left = blockIdx.x * TILE;
    int top = blockIdx.y * TILE;
    for (int j = threadIdx.y; j < TILE; j += ROWS) {
        int x = left + threadIdx.x;
        int y = top + j;
        if (x < cols && y < rows) tile[j][threadIdx.x] = in[y * cols + x];
    }
    __syncthreads();  // the tile is whole
    for (int j = threadIdx.y; j < TILE; j += ROWS) {
        int x = top + threadIdx.x;
        int y = left + j;
        if (x < rows && y < cols) out[y * rows + x] = tile[threadIdx.x][j];
    }
}

// The same through a tile in shared memory: loads and stores are coalesced, but a column of the
// tile is one bank. grid: (cols / TILE, rows / TILE), rounded up; block: (TILE, ROWS)
extern "C" __global__ void transpose_tile(const float* in,  // [rows, cols] f32
                                          float* out,       // [cols, rows] f32
                                          int rows, int cols) {
    transpose<0>(in, out, rows, cols);
}

// The same with rows of 33 words, so that a column lies in all banks.
extern "C" __global__ void transpose_padded(const float* in,  // [rows, cols] f32
                                            float* out,       // [cols, rows] f32
                                            int rows, int cols) {
    transpose<1>(in, out, rows, cols);
}

// c = a · b, each thread one element, all of it from global memory.
// grid: (n / 16, m / 16), rounded up; block: (16, 16)
extern "C" __global__ void naive_gemm(const float* a,  // [m, k] f32
                                      const float* b,  // [k, n] f32
                                      float* c,        // [m, n] f32
                                      int m, int n, int k) {
    int row = blockIdx.y * 16 + threadIdx.y;
    int column = blockIdx.x * 16 + threadIdx.x;
    if (row >= m || column >= n) return;
    float sum = 0.0f;
    for (int i = 0; i < k; ++i) {
        float left = a[row * k + i];      // gemm: a
        float right = b[i * n + column];  // gemm: b
        sum += left * right;              // gemm: fma
    }
    c[row * n + column] = sum;
}

// Lane l stores word l * stride of shared memory, and loads that of the opposite lane.
// grid: 1; block: 32; stride at most 33
extern "C" __global__ void bank_stride(float* out,  // [32] f32
                                       int stride) {
    __shared__ float words[31 * 33 + 1];
    words[threadIdx.x * stride] = 1.0f;
    __syncwarp();  // all words are there
    out[threadIdx.x] = words[(31 - threadIdx.x) * stride];
}

// The same with two words in each lane.
// grid: 1; block: 32; stride 1 or 2
extern "C" __global__ void bank_pairs(float2* out,  // [32, 2] f32
                                      int stride) {
    __shared__ float2 pairs[63];
    pairs[threadIdx.x * stride] = float2{1.0f, 2.0f};
    __syncwarp();  // all pairs are there
    out[threadIdx.x] = pairs[(31 - threadIdx.x) * stride];
}

// The same with four words in each lane.
// grid: 1; block: 32; stride 1 or 2
extern "C" __global__ void bank_vectors(float4* out,  // [32, 4] f32
                                        int stride) {
    __shared__ float4 vectors[63];
    vectors[threadIdx.x * stride] = float4{1.0f, 2.0f, 3.0f, 4.0f};
    __syncwarp();  // all vectors are there
    out[threadIdx.x] = vectors[(31 - threadIdx.x) * stride];
}

// Lane l loads the two words, and the four, of place l & keep.
// grid: 1; block: 32; keep at most 31
extern "C" __global__ void bank_partners(float2* pairs_out,    // [32, 2] f32
                                         float4* vectors_out,  // [32, 4] f32
                                         int keep) {
    __shared__ float2 pairs[32];
    __shared__ float4 vectors[32];
    pairs[threadIdx.x] = float2{1.0f, 2.0f};
    vectors[threadIdx.x] = float4{1.0f, 2.0f, 3.0f, 4.0f};
    __syncwarp();  // all words are there
    pairs_out[threadIdx.x] = pairs[threadIdx.x & keep];      // partners: two words
    vectors_out[threadIdx.x] = vectors[threadIdx.x & keep];  // partners: four words
}

// Half of the warp loads from shared memory, half from global memory, by one instruction.
// grid: 1; block: 32
extern "C" __global__ void two_spaces(const float* in,  // [32] f32
                                      float* out) {     // [32] f32
    __shared__ float words[32];
    words[threadIdx.x] = 1.0f;
    __syncwarp();  // all words are there
    const float* from = threadIdx.x < 16 ? words : in;
    out[threadIdx.x] = from[threadIdx.x ^ 1];
}

constexpr int BINS = 64;

// How often each value occurs: counted in shared memory, then added up.
// grid: any; block: (256, 1, 1), one thread per element, the last block ragged
extern "C" __global__ void histogram(const unsigned* in,  // [n] u32
                                     unsigned* out,       // [BINS] u32
                                     int n) {
    __shared__ unsigned bins[BINS];
    int i = blockIdx.x * 256 + threadIdx.x;
    if (threadIdx.x < BINS) bins[threadIdx.x] = 0;
    __syncthreads();  // all bins are empty
    if (i < n) atomicAdd(&bins[in[i] % BINS], 1u);
    __syncthreads();  // all have counted
    if (threadIdx.x < BINS) atomicAdd(&out[threadIdx.x], bins[threadIdx.x]);
}

// The sum of all elements: by shuffles in each warp, through shared memory in each
// block, by an atomic addition in all. grid: any; block: (256, 1, 1), one thread per
// element, the last block ragged
extern "C" __global__ void block_sum(const float* in,  // [n] f32
                                     float* out,       // [1] f32
                                     int n) {
    __shared__ float sums[8];
    int i = blockIdx.x * 256 + threadIdx.x;
    float x = 0.0f;
    if (i < n) x = in[i];
    x = warp_sum(x);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = x;
    __syncthreads();  // all warps' sums are there
    if (threadIdx.x >= 32) return;
    x = 0.0f;
    if (threadIdx.x < 8) x = sums[threadIdx.x];
    x = warp_sum(x);
    if (threadIdx.x == 0) atomicAdd(out, x);
}
