// FlashAttention with every option: masks, window, key lengths, strides, grouped heads, any head dimension.
//
// Idea: rung 1's algorithm. mask.cuh tells which tiles are masked and can be skipped, and which scores of a mixed tile are
// hidden. Strides place the tensors. k and v go through one shared buffer, a slice of columns at a time, so that D can be
// large.
//
//     for each tile of keys that is not wholly masked:
//         s = scale * q k^T + mask                 k through shared memory, a slice of columns at a time
//         m' = max(m, rowmax(s)); p = exp(s - m'); c = exp(m - m')
//         l = c l + rowsum(p); o = c o + p v       v through the same shared memory
//     o = o / l; lse = m + log(l)
//
// Grid:   x = ceil(nq / BLOCK_Q) * B * H.
// Block:  (THREADS). A warp owns BLOCK_Q / (THREADS / 32) queries; its lanes lie along the keys, then along the columns of v.
// Shared: (BLOCK_Q * slices * SLICE + BLOCK_KV * (SLICE | 1) + BLOCK_Q * BLOCK_KV) * 4 bytes, static.
// Reads:  q once; k and v once per block. Writes: o, lse once.
// A query that sees no key gets o = 0, lse = -inf.
// Constants: HEAD_DIM (D, or 0 for a kernel that is told D at run time); COLUMNS >= D, to which rows are padded with zeros;
// SLICE, the columns of k and v that are in shared memory at a time; BLOCK_Q, BLOCK_KV, THREADS.
// Since rung 1, two ideas. The options: mask.cuh and strides. Large D: k and v share one buffer, a slice of columns at a time;
// SLICE = COLUMNS (the strategy exact) is the first idea alone. Details: query tiles run in reverse order, for the causal mask;
// p v stops at the last key of the sequence; exp(x) is written as ex2(x log2 e); one logarithm does for all rows of a warp.
//
// launch: grid=8 block=256
// define: HEAD_DIM=64 COLUMNS=64 SLICE=64 BLOCK_Q=32 BLOCK_KV=32 THREADS=256
// args: f32[12800]=random f32[8320]=random f32[8320]=random null null null f32[12800]=uninit f32[200]=uninit
// args: {{i64=12800,6400,64}, {i64=8320,8320,64}, {i64=8320,8320,64}, {i64=12800,6400,64}, {i64=0,0,0}, {i64=0,0,0},
// args:  i32=2,2, 100,130, 64, -100,30, f32=0.125}

#include "load_tile.cuh"
#include "mask.cuh"
#include "prelude.cuh"
#include "problem.cuh"

constexpr int WARPS = THREADS / 32;
constexpr int ROWS = BLOCK_Q / WARPS;              // queries of a warp
constexpr int SLICES = (COLUMNS + SLICE - 1) / SLICE;
constexpr int LANE_COLUMNS = (SLICE + 31) / 32;    // columns of a slice of o that a lane owns
constexpr int KV_STRIDE = SLICE | 1;               // odd: 32 lanes that read a column of k hit 32 banks
constexpr float LOG2_E = 1.4426950408889634f;

static_assert(THREADS % 32 == 0 && BLOCK_Q % WARPS == 0, "a warp owns whole rows of scores");
static_assert(ROWS <= 32, "each row of a warp has a lane that writes its lse");
static_assert(BLOCK_KV == 32, "a lane owns one key of a tile");
static_assert(HEAD_DIM == 0 || HEAD_DIM == COLUMNS, "a kernel that is compiled for D pads nothing");

// ANCHOR: kernel
extern "C" __global__ void __launch_bounds__(THREADS) options(
    const float* q,            // [B, H, nq, D] f32
    const float* k,            // [B, H / group, nk, D] f32
    const float* v,            // [B, H / group, nk, D] f32
    const float* mask,         // [B, H, nq, nk] f32, or null
    const int* key_lengths,    // [B] i32, or null
    const unsigned* blocks,    // [B, H, ceil(nq / 64), words] u32, or null
    float* o,                  // [B, H, nq, D] f32
    float* lse,                // [B, H, nq] f32, packed, or null
    Problem problem
) {
    __shared__ float q_smem[BLOCK_Q * SLICES * SLICE];  // [query][column]
    __shared__ float kv_smem[BLOCK_KV * KV_STRIDE];     // [key][column of the slice], k and v in turn
    __shared__ float p_smem[BLOCK_Q * BLOCK_KV];        // [query][key]

    const auto [batch, head, first, end] = query_tile<BLOCK_Q>(problem);
    const Mask masks(mask, key_lengths, blocks, problem, batch, head);
    const float* k_head = matrix_of(k, problem.k, batch, head / problem.group);
    const float* v_head = matrix_of(v, problem.v, batch, head / problem.group);
    const int columns = HEAD_DIM > 0 ? HEAD_DIM : problem.head_dim;
    const int lane = threadIdx.x % 32;
    const int warp_row = threadIdx.x / 32 * ROWS;  // the warp's first row of the tile
    const bool idle = first + warp_row >= end;     // a warp without a query only helps to load

    // ANCHOR: load
    load_tile<BLOCK_Q, SLICES * SLICE, SLICES * SLICE>(
        q_smem, matrix_of(q, problem.q, batch, head), problem.q.row, first, end, 0, columns);
    // ANCHOR_END: load

    float max_reg[ROWS];  // of each row, the same in all lanes
    float sum_reg[ROWS];
    float o_reg[ROWS][SLICES][LANE_COLUMNS];  // o of column slice * SLICE + lane + 32 * c
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        max_reg[r] = -INFINITY;
        sum_reg[r] = 0.0f;
#pragma unroll
        for (int slice = 0; slice < SLICES; slice++) {
#pragma unroll
            for (int c = 0; c < LANE_COLUMNS; c++) {
                o_reg[r][slice][c] = 0.0f;
            }
        }
    }

    const int key_end = masks.end_of(end);
    for (int key = masks.begin_of(first) / BLOCK_KV * BLOCK_KV; key < key_end; key += BLOCK_KV) {
        const Tile tile = masks.tile(first, end, key, key + BLOCK_KV);
        if (tile == Tile::Masked) {
            continue;  // the whole block agrees, so no thread waits at a barrier in vain
        }

        // ANCHOR: scores
        float s_reg[ROWS] = {};  // of key key + lane
#pragma unroll
        for (int slice = 0; slice < SLICES; slice++) {
            load_tile<BLOCK_KV, SLICE, KV_STRIDE>(
                kv_smem, k_head, problem.k.row, key, masks.keys, slice * SLICE, columns);
            __syncthreads();  // so that no warp reads q or k before every thread has stored its part
            for (int d = 0; d < SLICE && !idle; d++) {
                const float k_reg = kv_smem[lane * KV_STRIDE + d];
#pragma unroll
                for (int r = 0; r < ROWS; r++) {
                    s_reg[r] += q_smem[(warp_row + r) * SLICES * SLICE + slice * SLICE + d] * k_reg;
                }
            }
            __syncthreads();  // so that no thread loads the next slice, or v, while another still reads this one
        }

        // ANCHOR_END: scores
        // ANCHOR: softmax
        float shrink_reg[ROWS] = {};  // factor of earlier sums
#pragma unroll
        for (int r = 0; r < ROWS && !idle; r++) {
            // ANCHOR: mask
            float s = s_reg[r] * problem.scale;
            if (tile == Tile::Mixed) {
                s = masks.masked(s, first + warp_row + r, key + lane);
            }
            // ANCHOR_END: mask
            const float max = warp_max(fmaxf(max_reg[r], s));
            // exp(-inf - -inf) is NaN: where nothing has been seen, subtract nothing, and every exponential is 0.
            const float shift = max == -INFINITY ? 0.0f : max;
            const float shrink = ex2_approx_ftz_f32((max_reg[r] - shift) * LOG2_E);
            const float p = ex2_approx_ftz_f32((s - shift) * LOG2_E);
            p_smem[(warp_row + r) * BLOCK_KV + lane] = p;
            max_reg[r] = max;
            sum_reg[r] = sum_reg[r] * shrink + warp_sum(p);
            shrink_reg[r] = shrink;
        }
        // ANCHOR_END: softmax

        // ANCHOR: accumulate
        const int seen = min(BLOCK_KV, masks.keys - key);  // valid keys in this tile; the rest have p = 0
#pragma unroll
        for (int slice = 0; slice < SLICES; slice++) {
            load_tile<BLOCK_KV, SLICE, KV_STRIDE>(
                kv_smem, v_head, problem.v.row, key, masks.keys, slice * SLICE, columns);
            __syncthreads();  // so that no warp reads p or v before every thread has stored its part
            float pv_reg[ROWS][LANE_COLUMNS] = {};  // of this tile alone: long sums of short sums lose fewer digits
            for (int j = 0; j < seen && !idle; j++) {
#pragma unroll
                for (int c = 0; c < LANE_COLUMNS; c++) {
                    if (lane + 32 * c < SLICE) {
                        const float v_reg = kv_smem[j * KV_STRIDE + lane + 32 * c];
#pragma unroll
                        for (int r = 0; r < ROWS; r++) {
                            pv_reg[r][c] += p_smem[(warp_row + r) * BLOCK_KV + j] * v_reg;
                        }
                    }
                }
            }
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
#pragma unroll
                for (int c = 0; c < LANE_COLUMNS; c++) {
                    o_reg[r][slice][c] = o_reg[r][slice][c] * shrink_reg[r] + pv_reg[r][c];
                }
            }
            __syncthreads();  // so that no thread loads the next slice, or k, while another still reads this one
        }
        // ANCHOR_END: accumulate
    }

    // ANCHOR: epilogue
    float* o_head = matrix_of(o, problem.o, batch, head);
    float lane_max = 0.0f, lane_sum = 0.0f;  // of row `lane`, so that one logarithm does for all rows
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const int i = first + warp_row + r;
        if (i >= end) {
            break;
        }
        const float scale = sum_reg[r] == 0.0f ? 0.0f : 1.0f / sum_reg[r];
#pragma unroll
        for (int slice = 0; slice < SLICES; slice++) {
#pragma unroll
            for (int c = 0; c < LANE_COLUMNS; c++) {
                const int column = slice * SLICE + lane + 32 * c;
                if (lane + 32 * c < SLICE && column < columns) {
                    o_head[i * problem.o.row + column] = o_reg[r][slice][c] * scale;
                }
            }
        }
        if (lane == r) {
            lane_max = max_reg[r];
            lane_sum = sum_reg[r];
        }
    }
    const int i = first + warp_row + lane;
    if (lane < ROWS && i < end && lse != nullptr) {
        const long long matrix = static_cast<long long>(batch) * problem.heads + head;
        lse[matrix * problem.nq + i] = lane_sum == 0.0f ? -INFINITY : lane_max + logf(lane_sum);
    }
    // ANCHOR_END: epilogue
}
// ANCHOR_END: kernel
