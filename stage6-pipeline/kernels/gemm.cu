// Product of many rows of x with a weight, y = x W^T + bias: the linear layer of a prefill.
//
// Idea: as rung 2 of stage 4, register tiles. A thread computes ROWS x COLUMNS outputs: in each
// step of 4 columns, ROWS + COLUMNS vectors from shared memory make 4 * ROWS * COLUMNS
// multiply-adds. Elements of W become f32 on their way to shared memory.
//
//     for each tile of K columns:
//         load BLOCK_M rows of x and BLOCK_N rows of W; zeros beyond the edges
//         sum += x W^T             in registers
//     bias, activation, residual
//
// No bank conflicts: rows in shared memory are an odd number of 16-byte words long, and 8 lanes
// read 8 neighbouring rows of W, or the same row of x.
//
// Grid:   x = ceil(outputs / OUTPUTS) * ceil(n / BLOCK_M), where OUTPUTS is BLOCK_N,
//         or half of it for SwiGLU.
// Block:  (128). A warp has 16 rows of x; 8 neighbouring lanes share 4 of them.
// Shared: 128 * 36 * 4 = 18,432 bytes, static.
// Reads:  x once for each column of tiles, W once for each row of tiles, bias. Writes: y; reads it
//         too if the epilogue adds.
// A warp without a row of x loads, but does not multiply.
// Constants: ELEMENT (f32, f16, bf16).
//
// launch: grid=2 block=128
// define: ELEMENT=f16
// args: f32[3300]=uninit f32[1850]=random f16[3300]=random f32[66]=random i32=50 i32=37 i32=66
// args: i32=1 i32=1
#include "epilogue.cuh"
#include "stage5-decode/library/cache.cuh"

constexpr int BLOCK_M = 64;
constexpr int BLOCK_N = 64;
constexpr int K = 32;                  // columns of a tile
constexpr int STRIDE = K + 4;          // floats of a row in shared memory
constexpr int ROWS = 4;                // rows of x of a thread: ty + TY * r of its warp's
constexpr int COLUMNS = 8;             // rows of W of a thread: tx + TX * c
constexpr int TX = BLOCK_N / COLUMNS;
constexpr int TY = 32 / TX;
constexpr int WARP_ROWS = ROWS * TY;   // rows of x of a warp
constexpr int THREADS = 32 * BLOCK_M / WARP_ROWS;

static_assert(TX == 8, "8 lanes read neighbouring rows of W");
static_assert(BLOCK_M * BLOCK_N <= (BLOCK_M + BLOCK_N) * STRIDE, "the sums take the place of the tiles");

// Neighbouring floats, which one instruction moves.
template <int COUNT>
struct alignas(4 * COUNT) Floats {
    float x[COUNT];
};

// ANCHOR: load
// Copies a tile of ROWS_OF_TILE rows and K columns, which begins at `column`, to shared memory.
// `row_of` gives the row of the matrix that a row of the tile is, or a negative number for none.
// Copies COUNT elements at a time.
template <int ROWS_OF_TILE, int COUNT, typename T, typename RowOf, typename Widen>
__device__ __forceinline__ void load_tile(
    float (*tile_smem)[STRIDE], const T* matrix, int columns, int column, RowOf row_of, Widen widen
) {
    struct alignas(COUNT * sizeof(T)) Vector {
        T bits[COUNT];
    };
    constexpr int PER_ROW = K / COUNT;
#pragma unroll 4
    for (int e = threadIdx.x; e < ROWS_OF_TILE * PER_ROW; e += THREADS) {
        const int row = e / PER_ROW, k = e % PER_ROW * COUNT;
        const long long source = row_of(row);
        Vector vector = {};  // of zeros, which add nothing to a sum
        if (source >= 0 && column + k < columns) {
            vector = *reinterpret_cast<const Vector*>(matrix + source * columns + column + k);
        }
        Floats<COUNT> floats;
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
            floats.x[i] = widen(vector.bits[i]);
        }
        *reinterpret_cast<Floats<COUNT>*>(&tile_smem[row][k]) = floats;
    }
}
// ANCHOR_END: load

// ANCHOR: kernel
extern "C" __global__ void __launch_bounds__(THREADS) gemm(
    float* y,            // [n, outputs] f32
    const float* x,      // [n, in] f32
    const Bits* weight,  // [outputs, in], or [2 * outputs, in] for SwiGLU
    const float* bias,   // [rows of the weight] f32, or null
    int n, int in, int outputs, int epilogue,
    int vector           // 4 if rows of x and W can be read by vectors of 4 elements, else 1
) {
    __shared__ __align__(16) float smem[BLOCK_M + BLOCK_N][STRIDE];
    float(*x_smem)[STRIDE] = smem;
    float(*w_smem)[STRIDE] = smem + BLOCK_M;
    const bool gated = epilogue == SWIGLU;
    const int tile_outputs = gated ? BLOCK_N / 2 : BLOCK_N;
    const int tiles = (outputs + tile_outputs - 1) / tile_outputs;
    const int first_output = blockIdx.x % tiles * tile_outputs;
    const int first_row = blockIdx.x / tiles * BLOCK_M;
    const int warp_row = threadIdx.x / 32 * WARP_ROWS;  // of the tile of x, the first row of this warp
    const int tx = threadIdx.x % TX, ty = warp_row + threadIdx.x % 32 / TX;
    // A row of the tile of x is a row of x. With gates, the upper half of the tile of W are
    // the ups of the lower half.
    const auto x_row = [&](int row) { return first_row + row < n ? first_row + row : -1; };
    const auto w_row = [&](int row) {
        const int up = gated && row >= BLOCK_N / 2;
        const int output = first_output + row - up * (BLOCK_N / 2);
        return output < outputs ? output + up * outputs : -1;
    };
    const auto same = [](float value) { return value; };

    float sum[ROWS][COLUMNS] = {};
    for (int k0 = 0; k0 < in; k0 += K) {
        if (vector == 4) {
            load_tile<BLOCK_M, 4>(x_smem, x, in, k0, x_row, same);
            load_tile<BLOCK_N, 4>(w_smem, weight, in, k0, w_row, ELEMENT::widen);
        } else {
            load_tile<BLOCK_M, 1>(x_smem, x, in, k0, x_row, same);
            load_tile<BLOCK_N, 1>(w_smem, weight, in, k0, w_row, ELEMENT::widen);
        }
        __syncthreads();  // so that no thread reads the tiles before every thread has stored its part
        // ANCHOR: product
#pragma unroll 2
        for (int k = 0; k < K && first_row + warp_row < n; k += 4) {
            Floats<4> x_reg[ROWS];
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                x_reg[r] = *reinterpret_cast<const Floats<4>*>(&x_smem[ty + TY * r][k]);
            }
#pragma unroll
            for (int c = 0; c < COLUMNS; c++) {
                const Floats<4> w_reg = *reinterpret_cast<const Floats<4>*>(&w_smem[tx + TX * c][k]);
#pragma unroll
                for (int r = 0; r < ROWS; r++) {
#pragma unroll
                    for (int e = 0; e < 4; e++) {
                        sum[r][c] += x_reg[r].x[e] * w_reg.x[e];
                    }
                }
            }
        }
        // ANCHOR_END: product
        __syncthreads();  // so that no thread stores the next tiles while another still reads these
    }

    // ANCHOR: store
    // By way of shared memory, so that neighbouring threads store neighbouring outputs, and the
    // epilogue is compiled once.
    float(*sum_smem)[BLOCK_N] = reinterpret_cast<float(*)[BLOCK_N]>(smem);  // over the tiles
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
#pragma unroll
        for (int c = 0; c < COLUMNS; c++) {
            sum_smem[ty + TY * r][tx + TX * c] = sum[r][c];
        }
    }
    __syncthreads();  // so that no thread reads a sum before it is stored
#pragma unroll 1
    for (int e = threadIdx.x; e < BLOCK_M * tile_outputs; e += THREADS) {
        const int row = e / tile_outputs, column = e % tile_outputs;
        const int i = first_row + row, output = first_output + column;
        if (i >= n || output >= outputs) {
            continue;
        }
        float value = sum_smem[row][column] + (bias != nullptr ? bias[output] : 0.0f);
        if (gated) {
            const float up = sum_smem[row][column + tile_outputs] + (bias != nullptr ? bias[output + outputs] : 0.0f);
            value = silu(value) * up;
        } else if (epilogue == GELU) {
            value = gelu(value);
        }
        float& stored = y[static_cast<long long>(i) * outputs + output];
        stored = epilogue == ADD ? stored + value : value;
    }
    // ANCHOR_END: store
}
// ANCHOR_END: kernel
