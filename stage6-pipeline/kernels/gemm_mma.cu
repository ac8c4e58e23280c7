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
// Of 16 rows of the tile of W, a lane has the sums of two in the first 8 and of two in the others.
// The rows are exchanged so that these are four neighbouring outputs, which it stores at once. With
// gates, the others are the ups of the first 8: a lane has the gate and the up of two outputs.
// Rows behind the last one read the last one; their sums are not stored.
//
// No bank conflicts: vector c of row r lies at place c ^ r % 8, so the 8 rows that ldmatrix reads
// have different banks.
//
// Grid:   x = ceil(outputs / OUTPUTS), where OUTPUTS is BLOCK_N, or half of it for SwiGLU;
//         y = ceil(n / BLOCK_M).
// Block:  (128). A warp has 64 rows of x, and BLOCK_M * BLOCK_N / 256 rows of W; of each tile of
//         16 x 8 sums, lane 4 g + t has two in row g and two in row g + 8.
// Shared: 2 * (BLOCK_M + BLOCK_N) * K * 2 bytes, dynamic.
// Reads:  x once for each column of tiles, W once for each row of tiles, bias. Writes: y, f32 or
//         rounded to the type of W; reads it too if the epilogue adds, which y in f32 can.
// `in` is a multiple of 8 and `outputs` of 4; x, W and y are aligned to 16 bytes.
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
constexpr int VECTORS = K / 8;     // vectors of a row
constexpr int ROW = K * 2;         // bytes
constexpr int TILE = (BLOCK_M + BLOCK_N) * ROW;
constexpr int THREADS = 128;
constexpr int STEP = THREADS / VECTORS;  // rows that the threads copy at a time
constexpr int COPIES = (BLOCK_M + BLOCK_N) / STEP;
constexpr int WARP_M = 64;              // rows of x of a warp
constexpr int WARPS_M = BLOCK_M / WARP_M;
constexpr int WARP_N = BLOCK_N * WARPS_M / (THREADS / 32);  // rows of W of a warp
constexpr int TILES_M = WARP_M / 16;
constexpr int TILES_N = WARP_N / 8;

static_assert(VECTORS == 8, "a row fills all banks, and its 8 vectors swap places");
static_assert(STEP == 16, "a thread copies gates alone, or ups alone");

struct alignas(16) Vector {
    unsigned x[4];  // 8 elements
};

template <typename T>
struct alignas(2 * sizeof(T)) Two {
    T x[2];
};

// Stores a pair of outputs, or two pairs.
template <typename Pair>
__device__ __forceinline__ void store(Pair* target, bool both, Pair first, Pair second) {
    if (both) {
        *reinterpret_cast<Two<Pair>*>(target) = {first, second};
    } else {
        *target = first;
    }
}

// The place of a vector of a row.
__device__ __forceinline__ int at(int row, int vector) {
    return row * VECTORS + (vector ^ row % 8);
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
    extern __shared__ __align__(128) Vector smem[];  // [2][BLOCK_M + BLOCK_N][VECTORS]: rows of x, then of W
    const bool gated = epilogue == SWIGLU;
    const int first_output = blockIdx.x * (gated ? BLOCK_N / 2 : BLOCK_N);
    const int first_row = blockIdx.y * BLOCK_M;
    const int lane = threadIdx.x % 32;
    // The first rows of this warp, of the tile of x and of that of W.
    const int warp_m = threadIdx.x / 32 % WARPS_M * WARP_M, warp_n = threadIdx.x / 32 / WARPS_M * WARP_N;

    // ANCHOR: copy
    // This thread's part of a tile: a vector of every STEP-th row.
    const int own_row = threadIdx.x / VECTORS, own_vector = threadIdx.x % VECTORS;
    const unsigned target = shared_address(&smem[at(own_row, own_vector)]);
    long long own[COPIES];  // offsets in x, then in W
#pragma unroll
    for (int j = 0; j < COPIES; j++) {
        long long row;
        if (STEP * j < BLOCK_M) {
            row = min(first_row + own_row + STEP * j, n - 1);
        } else {
            const int place = gated ? own_row % 8 : own_row % 8 / 2 * 4 + own_row / 8 * 2 + own_row % 2;
            const int output = first_output + (STEP * j - BLOCK_M) / (gated ? 2 : 1) + place;
            row = min(output, outputs - 1) + (gated && own_row >= 8 ? outputs : 0);
        }
        own[j] = kept(row * in + own_vector * 8);
    }
    const auto copy = [&](int stage, int k0) {
        const int bytes = k0 + own_vector * 8 < in ? 16 : 0;  // zeros behind the last column: they change no sum
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
        for (int c = 0; c < VECTORS; c += 2) {
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
    // Of tiles 2 p and 2 p + 1, this lane has four outputs, or two, from output(p) on.
    const auto output = [&](int p) {
        return first_output + (gated ? warp_n / 2 + p * 8 + lane % 4 * 2 : warp_n + p * 16 + lane % 4 * 4);
    };
    float bias_reg[TILES_N][2] = {};
#pragma unroll
    for (int j = 0; j < TILES_N; j++) {
        if (bias != nullptr && output(j / 2) < outputs) {
            const float* pair = bias + output(j / 2) + j % 2 * (gated ? outputs : 2);
            bias_reg[j][0] = pair[0];
            bias_reg[j][1] = pair[1];
        }
    }
    // Tile of rows by tile of rows, each moved to sum[0]: registers cannot be indexed, and the
    // epilogue is long.
#pragma unroll 1
    for (int first = first_row + warp_m + lane / 4, m = 0; m < TILES_M; first += 16, m++) {
        Two<Two<float>> before[TILES_N] = {};  // what y holds, if the sums are added to it
#pragma unroll
        for (int e = 0; e < TILES_N; e++) {
            const int row = first + e % 2 * 8, column = output(e / 2);
            if (epilogue == ADD && row < n && column < outputs) {
                const float* source = static_cast<float*>(y) + static_cast<long long>(row) * outputs + column;
                before[e] = *reinterpret_cast<const Two<Two<float>>*>(source);
            }
        }
#pragma unroll
        for (int e = 0; e < TILES_N; e++) {
            const int row = first + e % 2 * 8, column = output(e / 2);
            float value[4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int j = e / 2 * 2 + i / 2;
                value[i] = sum[0][j][e % 2 * 2 + i % 2] + bias_reg[j][i % 2];
                if (epilogue == GELU) {
                    value[i] = gelu(value[i]);
                }
                value[i] += before[e].x[i / 2].x[i % 2];
            }
            if (gated) {
                value[0] = silu(value[0]) * value[2];
                value[1] = silu(value[1]) * value[3];
            }
            if (row >= n || column >= outputs) {
                continue;  // The outputs are not there.
            }
            const long long place = static_cast<long long>(row) * outputs + column;
            if (rounded) {
                auto* target = reinterpret_cast<unsigned*>(static_cast<Half*>(y) + place);
                store(target, !gated, Half::round_pair(value[0], value[1]), Half::round_pair(value[2], value[3]));
            } else {
                auto* target = reinterpret_cast<Two<float>*>(static_cast<float*>(y) + place);
                store(target, !gated, {value[0], value[1]}, {value[2], value[3]});
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
