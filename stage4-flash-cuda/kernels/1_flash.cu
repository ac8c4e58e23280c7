// FlashAttention and nothing else: o = softmax(scale * q k^T) v, causal or not, in one kernel
// instead of stage 2's four.
//
// Idea: a block keeps a tile of queries and loops over tiles of keys and values. The softmax of a
// row needs its maximum m and its sum l. Both are computed online, over the keys seen so far: when
// m grows, l and o are scaled down.
//
//     for each tile of keys:                      [Dao 2023, FlashAttention-2, algorithm 1]
//         s = scale * q k^T;  m' = max(m, rowmax(s));  p = exp(s - m');  c = exp(m - m')
//         l = c l + rowsum(p);  o = c o + p v;  m = m'
//     o = o / l;  lse = m + log(l)
//
// Constants: HEAD_DIM = D, BLOCK_Q queries and BLOCK_KV keys of a tile, THREADS of a block. The
//         host defines them when it compiles the kernel for a head dimension.
// Grid:   x = ceil(nq / BLOCK_Q) * B * H.
// Block:  (THREADS). A warp owns ROWS queries; a lane owns one key of each tile,
//         and every 32nd column of o.
// Shared: (BLOCK_Q * D + BLOCK_KV * (D | 1) + BLOCK_KV * D + BLOCK_Q * BLOCK_KV) * 4 bytes, static.
// Reads:  q once; k and v once per block. Writes: o, lse once; o = 0 and lse = -inf for
//         a query that sees no key.
//
// What limits it now: shared memory. With ROWS = 4 a lane loads five words for four multiply-adds
// of the scores. At D = 64 there is a wavefront for each multiply-add instruction, and an SM has
// one wavefront where it could execute four of these.
//
// launch: grid=8 block=256
// define: HEAD_DIM=64 BLOCK_Q=32 BLOCK_KV=32 THREADS=256
// args: f32[12800]=random f32[16640]=random f32[16640]=random f32[12800]=uninit f32[200]=uninit
// args: i32=100 i32=130 f32=0.125 i32=1
#include "prelude.cuh"

constexpr int ROWS = BLOCK_Q / (THREADS / 32);  // queries of a warp
constexpr int COLUMNS = (HEAD_DIM + 31) / 32;   // columns of o of a lane: lane + 32 * c
static_assert(BLOCK_KV == 32 && BLOCK_Q % (THREADS / 32) == 0, "a lane owns one key, a warp whole rows of scores");

// ANCHOR: kernel
extern "C" __global__ void __launch_bounds__(THREADS) flash(
    const float* q,  // [B, H, nq, D] f32
    const float* k,  // [B, H, nk, D] f32
    const float* v,  // [B, H, nk, D] f32
    float* o,        // [B, H, nq, D] f32
    float* lse,      // [B, H, nq] f32, or null
    int nq, int nk, float scale, int causal
) {
    __shared__ float q_smem[BLOCK_Q][HEAD_DIM];
    __shared__ float k_smem[BLOCK_KV][HEAD_DIM | 1];  // odd: 32 lanes that read a column of k read 32 banks
    __shared__ float v_smem[BLOCK_KV][HEAD_DIM];
    __shared__ float p_smem[BLOCK_Q][BLOCK_KV];
    const int tiles = (nq + BLOCK_Q - 1) / BLOCK_Q;
    const int lane = threadIdx.x % 32;
    const long long matrix = blockIdx.x / tiles;     // b * H + h
    const int first = blockIdx.x % tiles * BLOCK_Q;  // first query of the tile
    const int warp_row = threadIdx.x / 32 * ROWS;    // first row of the warp in the tile
    // ANCHOR: load
    for (int x = threadIdx.x; x < BLOCK_Q * HEAD_DIM; x += THREADS) {
        const int i = first + x / HEAD_DIM;
        const int d = x % HEAD_DIM;
        q_smem[x / HEAD_DIM][d] = i < nq ? q[(matrix * nq + i) * HEAD_DIM + d] : 0.0f;
    }
    // ANCHOR_END: load
    float max_reg[ROWS];
    float sum_reg[ROWS] = {};
    float o_reg[ROWS][COLUMNS] = {};
    for (int r = 0; r < ROWS; r++) {
        max_reg[r] = -INFINITY;
    }
    const int key_end = causal ? min(nk, first + BLOCK_Q + (nk - nq)) : nk;
    for (int key = 0; key < key_end; key += BLOCK_KV) {
        for (int x = threadIdx.x; x < BLOCK_KV * HEAD_DIM; x += THREADS) {
            const int j = key + x / HEAD_DIM;
            const int d = x % HEAD_DIM;
            k_smem[x / HEAD_DIM][d] = j < nk ? k[(matrix * nk + j) * HEAD_DIM + d] : 0.0f;
            v_smem[x / HEAD_DIM][d] = j < nk ? v[(matrix * nk + j) * HEAD_DIM + d] : 0.0f;
        }
        __syncthreads();  // so that no thread reads q, k or v before every thread has stored its part
        // ANCHOR: scores
        float s_reg[ROWS] = {};  // of key key + lane
#pragma unroll 4
        for (int d = 0; d < HEAD_DIM; d++) {
            for (int r = 0; r < ROWS; r++) {
                s_reg[r] += q_smem[warp_row + r][d] * k_smem[lane][d];
            }
        }
        // ANCHOR_END: scores
        float shrink_reg[ROWS];  // factor of earlier sums
        for (int r = 0; r < ROWS; r++) {
            // ANCHOR: mask
            const int i = first + warp_row + r;
            const int j = key + lane;
            const float s = j < nk && (!causal || j <= i + (nk - nq)) ? s_reg[r] * scale : -INFINITY;
            // ANCHOR_END: mask
            // ANCHOR: softmax
            const float max = fmaxf(max_reg[r], warp_max(s));
            const float shift = max == -INFINITY ? 0.0f : max;  // exp(-inf - -inf) would be NaN
            const float p = __expf(s - shift);
            p_smem[warp_row + r][lane] = p;
            shrink_reg[r] = __expf(max_reg[r] - shift);
            sum_reg[r] = sum_reg[r] * shrink_reg[r] + warp_sum(p);
            max_reg[r] = max;
            // ANCHOR_END: softmax
        }
        __syncwarp();  // so that no lane reads a row of p before all lanes of the warp have stored their parts
        // ANCHOR: accumulate
        float pv_reg[ROWS][COLUMNS] = {};  // of this tile alone: long sums of short sums lose fewer digits
#pragma unroll 4
        for (int j = 0; j < BLOCK_KV; j++) {
            for (int c = 0; c < COLUMNS && lane + 32 * c < HEAD_DIM; c++) {
                for (int r = 0; r < ROWS; r++) {
                    pv_reg[r][c] += p_smem[warp_row + r][j] * v_smem[j][lane + 32 * c];
                }
            }
        }
        for (int c = 0; c < COLUMNS; c++) {
            for (int r = 0; r < ROWS; r++) {
                o_reg[r][c] = o_reg[r][c] * shrink_reg[r] + pv_reg[r][c];
            }
        }
        // ANCHOR_END: accumulate
        __syncthreads();  // so that no thread loads the next k or v while another still reads this one
    }
    // ANCHOR: epilogue
    for (int r = 0; r < ROWS && first + warp_row + r < nq; r++) {
        const long long row = matrix * nq + first + warp_row + r;
        const float inverse = sum_reg[r] == 0.0f ? 0.0f : 1.0f / sum_reg[r];
        for (int c = 0; c < COLUMNS && lane + 32 * c < HEAD_DIM; c++) {
            o[row * HEAD_DIM + lane + 32 * c] = o_reg[r][c] * inverse;
        }
        if (lane == 0 && lse != nullptr) {
            lse[row] = max_reg[r] + logf(sum_reg[r]);  // log(0) = -inf
        }
    }
    // ANCHOR_END: epilogue
}
// ANCHOR_END: kernel
