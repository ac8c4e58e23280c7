// Product of many rows of x with a weight in half precision, y = x W^T + bias, on tensor cores: the
// linear layer of a prefill.
//
// Idea: as rungs 5 to 7 of stage 4. mma.sync multiplies 16 rows of x by 8 rows of W with sums in
// f32, and ldmatrix reads both from swizzled tiles. x has the type of W. While a tile is
// multiplied, the next one is copied.
//
//     start the copy of the first tile
//     for each tile of K columns:
//         wait for it; start the copy of the next one
//         sum += x W^T             in registers
//     bias, activation, residual
//
// With gates, every other 8 rows of the tile of W are the ups of the 8 rows before them: a lane has
// the gate and the up of an output. Rows behind the last one read the last one; their sums are not
// stored.
//
// No bank conflicts: vector c of row r lies at place c ^ r % 8, so the 8 rows that ldmatrix reads
// have different banks.
//
// Grid:   x = ceil(outputs / OUTPUTS), where OUTPUTS is BLOCK_N, or half of it for SwiGLU;
//         y = ceil(n / BLOCK_M).
// Block:  (128). A warp has 64 rows of x, and BLOCK_M * BLOCK_N / 256 rows of W; of each tile of
//         16 x 8 outputs, lane 4 g + t has two in row g and two in row g + 8.
// Shared: 2 * (BLOCK_M + BLOCK_N) * K * 2 bytes, dynamic.
// Reads:  x once for each column of tiles, W once for each row of tiles, bias. Writes: y, f32 or
//         rounded to the type of W; reads it too if the epilogue adds, which y in f32 can.
// `in` is a multiple of 8 and `outputs` of 2; x, W and y are aligned to 16 bytes.
// Constants: ELEMENT (f16, bf16); BLOCK_M, 64 or 128, and BLOCK_N.
//
// arch: compute_80
// launch: grid=2,1 block=128 shared=49152
// define: ELEMENT=f16 BLOCK_M=64 BLOCK_N=128
// args: f32[6600]=ones f16[3600]=random f16[9504]=random f32[132]=random i32=50 i32=72 i32=132
// args: i32=3 i32=0
#include "epilogue.cuh"
#include "stage4-flash-cuda/library/half.cuh"

using Half = ELEMENT;

constexpr int K = 64;              // columns of a tile
constexpr int CHUNKS = K / 8;      // vectors of a row
constexpr int ROW = K * 2;         // bytes
constexpr int TILE = (BLOCK_M + BLOCK_N) * ROW;
constexpr int THREADS = 128;
constexpr int STEP = THREADS / CHUNKS;  // rows that the threads copy at a time
constexpr int COPIES = (BLOCK_M + BLOCK_N) / STEP;
constexpr int WARP_M = 64;              // rows of x of a warp
constexpr int WARPS_M = BLOCK_M / WARP_M;
constexpr int WARP_N = BLOCK_N * WARPS_M / (THREADS / 32);  // rows of W of a warp
constexpr int TILES_M = WARP_M / 16;
constexpr int TILES_N = WARP_N / 8;

static_assert(CHUNKS == 8, "a row fills all banks, and its 8 vectors swap places");
static_assert(STEP == 16, "a thread copies gates alone, or ups alone");

struct alignas(16) Vector {
    unsigned x[4];  // 8 elements
};

struct alignas(8) Pair {
    float x[2];
};

// The place of vector `chunk` of a row.
__device__ __forceinline__ int at(int row, int chunk) {
    return row * CHUNKS + (chunk ^ row % 8);
}

// x, opaque to the compiler: else it computes an offset anew for each tile.
__device__ __forceinline__ long long kept(long long x) {
    asm volatile("" : "+l"(x));
    return x;
}

// ANCHOR: kernel
extern "C" __global__ void __launch_bounds__(THREADS) gemm_mma(
    void* y,             // [n, outputs] f32, or f16 or bf16
    const Half* x,       // [n, in]
    const Half* weight,  // [outputs, in], or [2 * outputs, in] for SwiGLU
    const float* bias,   // [rows of the weight] f32, or null
    int n, int in, int outputs, int epilogue,
    int rounded          // 1: y has the type of W
) {
    extern __shared__ __align__(128) Vector smem[];  // [2][BLOCK_M + BLOCK_N][CHUNKS]: rows of x, then of W
    const bool gated = epilogue == SWIGLU;
    const int first_output = blockIdx.x * (gated ? BLOCK_N / 2 : BLOCK_N);
    const int first_row = blockIdx.y * BLOCK_M;
    const int lane = threadIdx.x % 32;
    // The first rows of this warp, of the tile of x and of that of W.
    const int warp_m = threadIdx.x / 32 % WARPS_M * WARP_M, warp_n = threadIdx.x / 32 / WARPS_M * WARP_N;

    // ANCHOR: copy
    // This thread's part of a tile: a vector of every STEP-th row.
    const int own_row = threadIdx.x / CHUNKS, own_chunk = threadIdx.x % CHUNKS;
    const unsigned target = shared_address(&smem[at(own_row, own_chunk)]);
    long long own[COPIES];  // offsets in x, then in W
#pragma unroll
    for (int j = 0; j < COPIES; j++) {
        long long row;
        if (STEP * j < BLOCK_M) {
            row = min(first_row + own_row + STEP * j, n - 1);
        } else {
            const int w_row = own_row + STEP * j - BLOCK_M;
            const int output = first_output + (gated ? w_row / 16 * 8 + w_row % 8 : w_row);
            row = min(output, outputs - 1) + (gated && own_row >= 8 ? outputs : 0);
        }
        own[j] = kept(row * in + own_chunk * 8);
    }
    const auto copy = [&](int stage, int k0) {
        const int bytes = k0 + own_chunk * 8 < in ? 16 : 0;  // zeros behind the last column: they change no sum
#pragma unroll
        for (int j = 0; j < COPIES; j++) {
            const Half* source = (STEP * j < BLOCK_M ? x : weight) + k0 + own[j];
            cp_async_cg_shared_global_16(target + stage * TILE + STEP * j * ROW, source, bytes);
        }
        cp_async_commit_group();
    };
    // ANCHOR_END: copy

    // In the first tile, the rows that this lane gives the address of. A step of columns flips bits
    // of it, a step of rows or to the other tile adds a constant.
    const unsigned x_lane = shared_address(&smem[at(warp_m + lane % 16, lane / 16)]);
    const unsigned w_lane = shared_address(&smem[at(BLOCK_M + warp_n + lane / 16 * 8 + lane % 8, lane / 8 % 2)]);
    float sum[TILES_M][TILES_N][4] = {};
    copy(0, 0);
#pragma unroll 1
    for (int k0 = 0, stage = 0; k0 < in; k0 += K, stage ^= 1) {
        cp_async_wait_group<0>();
        // So that no thread reads a tile before all of it is there, or copies into the other one
        // while it is read.
        __syncthreads();
        copy(stage ^ 1, k0 + K);  // zeros behind the last
        // ANCHOR: product
#pragma unroll
        for (int c = 0; c < CHUNKS; c += 2) {
            unsigned x_reg[TILES_M][4];  // tiles of 16 rows of x x 16 columns
#pragma unroll
            for (int m = 0; m < TILES_M; m++) {
                ldmatrix_x4(x_reg[m], (x_lane + stage * TILE ^ c * 16) + 16 * m * ROW);
            }
#pragma unroll
            for (int j = 0; j < TILES_N; j += 2) {
                unsigned w_reg[4];  // 16 rows of W x 16 columns: b0 and b1 of 8 rows, then of the next 8
                ldmatrix_x4(w_reg, (w_lane + stage * TILE ^ c * 16) + 8 * j * ROW);
#pragma unroll
                for (int m = 0; m < TILES_M; m++) {
                    Half::mma_m16n8k16(sum[m][j], x_reg[m], w_reg[0], w_reg[1], sum[m][j]);
                    Half::mma_m16n8k16(sum[m][j + 1], x_reg[m], w_reg[2], w_reg[3], sum[m][j + 1]);
                }
            }
        }
        // ANCHOR_END: product
    }
    cp_async_wait_group<0>();  // no copy is left behind

    // ANCHOR: store
    // Of tile j, this lane has the sums of outputs output(j) and output(j) + 1.
    const auto output = [&](int j) {
        return first_output + lane % 4 * 2 + (gated ? warp_n / 2 + j / 2 * 8 : warp_n + j * 8);
    };
    float bias_reg[TILES_N][2] = {};
#pragma unroll
    for (int j = 0; j < TILES_N; j++) {
        if (bias != nullptr && output(j) < outputs) {
            const float* pair = bias + output(j) + (gated && j % 2 == 1 ? outputs : 0);
            bias_reg[j][0] = pair[0];
            bias_reg[j][1] = pair[1];
        }
    }
    // Tile of rows by tile of rows, each moved to sum[0]: registers cannot be indexed, and the
    // epilogue is long.
#pragma unroll 1
    for (int first = first_row + warp_m + lane / 4, m = 0; m < TILES_M; first += 16, m++) {
        Pair before[TILES_N][2] = {};  // what y holds, if the sums are added to it
#pragma unroll
        for (int e = 0; e < 2 * TILES_N; e++) {
            const int row = first + e % 2 * 8, column = output(e / 2);
            if (epilogue == ADD && row < n && column < outputs) {
                const float* source = static_cast<float*>(y) + static_cast<long long>(row) * outputs + column;
                before[e / 2][e % 2] = *reinterpret_cast<const Pair*>(source);
            }
        }
#pragma unroll
        for (int e = 0; e < 2 * TILES_N; e++) {
            const int row = first + e % 2 * 8, j = e / 2, column = output(j);
            float value[2];
#pragma unroll
            for (int i = 0; i < 2; i++) {
                value[i] = sum[0][j][e % 2 * 2 + i] + bias_reg[j][i];
                if (gated && j % 2 == 0) {
                    value[i] = silu(value[i]) * (sum[0][j + 1][e % 2 * 2 + i] + bias_reg[j + 1][i]);
                } else if (epilogue == GELU) {
                    value[i] = gelu(value[i]);
                }
                value[i] += before[j][e % 2].x[i];
            }
            const long long place = static_cast<long long>(row) * outputs + column;
            if (row >= n || column >= outputs || gated && j % 2 == 1) {
                // The output is not there, or it has been stored.
            } else if (rounded) {
                *reinterpret_cast<unsigned*>(static_cast<Half*>(y) + place) = Half::round_pair(value[0], value[1]);
            } else {
                *reinterpret_cast<Pair*>(static_cast<float*>(y) + place) = {value[0], value[1]};
            }
        }
#pragma unroll
        for (int e = 0; e < (TILES_M - 1) * TILES_N * 4; e++) {
            (&sum[0][0][0])[e] = (&sum[1][0][0])[e];
        }
    }
    // ANCHOR_END: store
}
// ANCHOR_END: kernel
