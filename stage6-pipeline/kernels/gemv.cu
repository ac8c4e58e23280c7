// Product of a few rows of x with a weight, y = x W^T + bias: the linear layer of a decode step.
//
// Idea: each weight is read once and used N times, so the time is that of reading the weight. 8
// lanes share a row of it, in vectors of 16 bytes; a load of a warp covers 128 bytes of 4 rows. A
// lane keeps the sums of ROWS rows for N rows of x, so that it loads x once for all of them.
//
//     for each vector of the 8 lanes' rows:
//         load it from ROWS rows of W, and from N rows of x
//         sum[r][i] += W[r] x[i]
//     add the sums of 8 lanes, so that each row of W is left to one lane (or to 2, or 4)
//     add the sums of the warps of the block: each has a slice of the columns
//     bias, activation, residual
//
// The order of a sum depends on vector, span and the number of slices alone, not on n, N or ROWS: a
// batch equals its rows one by one, bit for bit.
//
// Grid:   x = ceil(outputs / (4 * ROWS)), or ceil(outputs / (2 * ROWS)) for SwiGLU.
// Block:  (32 * slices), 1 to 8 slices of the columns.
// Shared: 8 * N * 32 * 4 bytes, static.
// Reads:  W once, x once per block, bias. Writes: y; reads it too if the epilogue adds.
// A block whose rows are not all there, or not aligned, computes one row of
// each lane after the other.
// Constants: ELEMENT (f32, f16, bf16); N (1, 2, 4, 8), at least n; ROWS (2, 8).
//
// launch: grid=5 block=64
// define: ELEMENT=f16 N=4 ROWS=2
// args: f32[99]=ones f32[216]=random f16[2376]=random f32[33]=random i32=3 i32=72 i32=33 i32=3
// args: i32=8 i32=64
#include "epilogue.cuh"
#include "stage5-decode/library/cache.cuh"

constexpr int LANES = 8;            // lanes that share a row of W
constexpr int GROUPS = 32 / LANES;  // rows of W that one load of a warp covers
constexpr int HALF = ROWS / 2;      // rows of a lane that are gates, or ups
constexpr int MAX_SLICES = 8;
constexpr int UNROLLED = N > 2 ? 1 : ROWS == 2 ? 4 / N : sizeof(Bits);  // vectors of a row that a lane has in flight

static_assert(ROWS == 2 || ROWS == 4 || ROWS == 8, "at the end, a lane is left with the sum of one row");

// Neighbouring floats, which one instruction loads.
template <int COUNT>
struct alignas(4 * COUNT) FloatChunk {
    static constexpr int ELEMENTS = COUNT;

    float x[COUNT];
};

// a if c >= 0, else b.
__device__ __forceinline__ float slct_f32_s32(float a, float b, int c) {
    float y;
    asm("slct.f32.s32 %0, %1, %2, %3;" : "=f"(y) : "f"(a), "f"(b), "r"(c));
    return y;
}

// ANCHOR: dot
// Adds products of N rows of x with COUNT rows of W to sum[0] to sum[COUNT - 1], by vectors of
// BYTES bytes of W. The lane takes every 8th vector of these rows, from where the pointers stand to
// the end, `columns` elements on.
template <int BYTES, int COUNT>
__device__ __forceinline__ void dot(float (*sum)[N], const float* (&x)[N], const Bits* (&weight)[COUNT], int columns) {
    using Vector = Chunk<BYTES>;
    using Floats = FloatChunk<Vector::ELEMENTS < 4 ? Vector::ELEMENTS : 4>;
    constexpr int STEP = LANES * Vector::ELEMENTS;
    const auto add = [&](int offset) {
        Vector w[COUNT];
#pragma unroll
        for (int r = 0; r < COUNT; r++) {
            w[r] = *reinterpret_cast<const Vector*>(weight[r] + offset);
        }
#pragma unroll
        for (int c = 0; c < Vector::ELEMENTS; c += Floats::ELEMENTS) {
#pragma unroll
            for (int i = 0; i < N; i++) {
                const Floats x_reg = *reinterpret_cast<const Floats*>(x[i] + offset + c);
#pragma unroll
                for (int r = 0; r < COUNT; r++) {
#pragma unroll
                    for (int e = 0; e < Floats::ELEMENTS; e++) {
                        sum[r][i] += x_reg.x[e] * ELEMENT::widen(w[r].bits[c + e]);
                    }
                }
            }
        }
    };
    const auto advance = [&](int offset) {
#pragma unroll
        for (int r = 0; r < COUNT; r++) {
            weight[r] += offset;
        }
#pragma unroll
        for (int i = 0; i < N; i++) {
            x[i] += offset;
        }
        columns -= offset;
    };
    constexpr int UNROLL = COUNT == ROWS ? UNROLLED : 1;
#pragma unroll 1
    while (columns > (UNROLL - 1) * STEP) {
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            add(u * STEP);
        }
        advance(UNROLL * STEP);
    }
#pragma unroll 1
    while (UNROLL > 1 && columns > 0) {
        add(0);
        advance(STEP);
    }
}
// ANCHOR_END: dot

// ANCHOR: reduce
// Adds a lane's sums to those of the 7 other lanes of its row. At each step a lane keeps half
// of its rows and gives the other half away, until one is left: row lane * ROWS / 8. Then all
// lanes add what they have.
__device__ __forceinline__ float reduce(float (&rows)[ROWS], int lane) {
    int count = ROWS;
#pragma unroll
    for (int distance = LANES / 2; distance > 0; distance /= 2) {
        if (count == 1) {
            rows[0] += __shfl_xor_sync(0xffffffffu, rows[0], distance);
            continue;
        }
        count /= 2;
        const int upper = -(lane & distance);  // below 0 if the lane keeps the upper half
#pragma unroll
        for (int r = 0; r < count; r++) {
            const float given = slct_f32_s32(rows[r + count], rows[r], upper);
            const float kept = slct_f32_s32(rows[r], rows[r + count], upper);
            rows[r] = kept + __shfl_xor_sync(0xffffffffu, given, distance);
        }
    }
    return rows[0];
}
// ANCHOR_END: reduce

// ANCHOR: kernel
extern "C" __global__ void __launch_bounds__(32 * MAX_SLICES, 1) gemv(
    float* y,            // [n, outputs] f32
    const float* x,      // [n, in] f32
    const Bits* weight,  // [outputs, in], or [2 * outputs, in] for SwiGLU
    const float* bias,   // [rows of the weight] f32, or null
    int n, int in, int outputs, int epilogue,
    int vector,          // elements of W that a lane loads at once: 16 bytes if all rows are aligned to 16 bytes, else 1
    int span             // columns of a slice, a multiple of 8 vectors
) {
    __shared__ float sum_smem[MAX_SLICES][N][32];
    const int lane = threadIdx.x % LANES, group = threadIdx.x % 32 / LANES;
    const int slice = threadIdx.x / 32, slices = blockDim.x / 32;
    // Row r of a lane is that of output first + r % HALF * GROUPS. The upper half of the rows are
    // the ups of these outputs, or belong to the next outputs.
    const bool gated = epilogue == SWIGLU;
    const int block_first = blockIdx.x * GROUPS * (gated ? HALF : ROWS);
    const int first = block_first + group;
    const int skip = gated ? 0 : HALF * GROUPS;  // outputs from the lower half to the upper
    const int above = gated ? outputs : 0;       // rows of W from the lower half to the upper, besides

    // ANCHOR: columns
    // The columns of this warp end before `end`, and those of this lane begin with `column`.
    const bool aligned = vector == Chunk<16>::ELEMENTS;
    const int end = min(in, (slice + 1) * span);
    const int column = slice * span + lane * vector;
    // ANCHOR_END: columns
    const float* x_row[N];
#pragma unroll
    for (int i = 0; i < N; i++) {
        x_row[i] = x + (N == 1 ? 0 : static_cast<long long>(min(i, n - 1)) * in) + column;
    }
    float sum[ROWS][N] = {};
    if (aligned && block_first + GROUPS * HALF + skip <= outputs) {
        const Bits* rows[ROWS];
        rows[0] = weight + static_cast<long long>(first) * in + column;
        rows[HALF] = rows[0] + static_cast<long long>(skip + above) * in;
#pragma unroll
        for (int r = 1; r < HALF; r++) {
            rows[r] = rows[r - 1] + static_cast<long long>(GROUPS) * in;
            rows[HALF + r] = rows[HALF + r - 1] + static_cast<long long>(GROUPS) * in;
        }
        dot<16, ROWS>(sum, x_row, rows, end - column);
    } else {
        // ANCHOR: ragged
        // Row by row, in the same order. Lanes without an output read the last
        // row, as their neighbours do.
#pragma unroll 1
        for (int r = 0; r < ROWS; r++) {
            const int offset = r % HALF * GROUPS + r / HALF * skip;
            if (block_first + offset >= outputs) {
                continue;
            }
            const long long row = min(first + offset, outputs - 1) + r / HALF * above;
            const Bits* rows[1] = {weight + row * in + column};
            const float* x_again[N];
#pragma unroll
            for (int i = 0; i < N; i++) {
                x_again[i] = x_row[i];
            }
            float row_sum[1][N] = {};
            if (aligned) {
                dot<16, 1>(row_sum, x_again, rows, end - column);
            } else {
                dot<sizeof(Bits), 1>(row_sum, x_again, rows, end - column);
            }
#pragma unroll
            for (int i = 0; i < N; i++) {
#pragma unroll
                for (int own = 0; own < ROWS; own++) {  // registers cannot be indexed by r
                    sum[own][i] = own == r ? row_sum[0][i] : sum[own][i];
                }
            }
        }
        // ANCHOR_END: ragged
    }

    float total[N];
#pragma unroll
    for (int i = 0; i < N; i++) {
        float rows[ROWS];
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            rows[r] = sum[r][i];
        }
        total[i] = reduce(rows, lane);
    }
    if (slices > 1) {
#pragma unroll
        for (int i = 0; i < N; i++) {
            sum_smem[slice][i][threadIdx.x % 32] = total[i];
        }
        __syncthreads();  // so that the first warp does not read the sums of another before they are stored
        if (slice > 0) {
            return;
        }
        for (int other = 1; other < slices; other++) {
#pragma unroll
            for (int i = 0; i < N; i++) {
                total[i] += sum_smem[other][i][threadIdx.x];
            }
        }
    }

    // ANCHOR: store
    const int row = lane * ROWS / LANES;  // of this lane's rows, the one whose sum it has
    const int output = first + row % HALF * GROUPS + row / HALF * skip;
    const bool inside = output < outputs;
    const float b = bias != nullptr && inside ? bias[output + row / HALF * above] : 0.0f;
    const bool stores = inside && lane % (LANES / ROWS) == 0 && !(gated && row >= HALF);
#pragma unroll
    for (int i = 0; i < N; i++) {
        float value = total[i] + b;
        if (gated) {
            value = silu(value) * __shfl_xor_sync(0xffffffffu, value, LANES / 2);
        } else if (epilogue == GELU) {
            value = gelu(value);
        }
        if (stores && i < n) {
            float* y_element = y + static_cast<long long>(i) * outputs + output;
            *y_element = epilogue == ADD ? *y_element + value : value;
        }
    }
    // ANCHOR_END: store
}
// ANCHOR_END: kernel
