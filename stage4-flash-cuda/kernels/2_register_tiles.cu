// Register tiles: a thread computes a rectangle of scores and of outputs.
//
// Idea: in rung 1 a thread with four queries loads five words from shared memory for four
// multiply-adds: one of k and four of q. Here a thread has ROWS queries and KEYS keys. For 4
// columns it loads ROWS + KEYS vectors of 4 floats, and makes 4 * ROWS * KEYS multiply-adds. In p v
// it is alike: ROWS queries, and a vector of 4 columns of o.
//
// Constants: HEAD_DIM = D, BLOCK_Q queries and BLOCK_KV keys of a tile, THREADS of a block. The
//         host defines them when it compiles the kernel for a head dimension.
// Grid:   x = ceil(nq / BLOCK_Q) * B * H.
// Block:  (THREADS). TX = 16 neighbouring threads share ROWS queries, which lie TY apart.
// Shared: (BLOCK_Q * D + BLOCK_KV * 4 * (D / 4 | 1) + BLOCK_KV * D + BLOCK_Q *
//         (BLOCK_KV | 16)) * 4 bytes, static.
// Reads:  q once; k and v once per block. Writes: o, lse once; o = 0 and lse = -inf for
//         a query that sees no key.
// Since rung 1: registers. Rows of 4 * n floats are read and written as n vectors, so they begin
// at multiples of 16 bytes.
//
// What limits it now: the issue of instructions. At D = 64, 63% of them are multiply-adds. Where an
// SM has one block, it is waiting: all warps wait while the next tile of k and v is loaded. The 149
// registers of a thread leave an SM room for 3 blocks, 12 of 64 warps, so few others can run then.
//
// launch: grid=4 block=128
// define: HEAD_DIM=64 BLOCK_Q=64 BLOCK_KV=32 THREADS=128
// args: f32[12800]=random f32[16640]=random f32[16640]=random f32[12800]=uninit f32[200]=uninit
// args: i32=100 i32=130 f32=0.125 i32=1
#include "prelude.cuh"

struct alignas(16) Vector {
    float x[4];
};

constexpr int ROWS = 8;                          // queries of a thread: ty + TY * r
constexpr int TY = BLOCK_Q / ROWS;
constexpr int TX = THREADS / TY;                 // threads that share a query
constexpr int KEYS = BLOCK_KV / TX;              // keys of a thread: tx + TX * n
constexpr int VECTORS = HEAD_DIM / 4;            // vectors of a row
constexpr int PIECES = (VECTORS + TX - 1) / TX;  // vectors of o of a thread: tx + TX * c
static_assert(HEAD_DIM % 4 == 0 && TX == 16 && BLOCK_KV % TX == 0, "a half warp shares rows of whole vectors");

// Folds a value over the threads that share a query; all of them get the result.
template <typename Fold>
__device__ float fold_row(float x, Fold fold) {
    for (int distance = TX / 2; distance > 0; distance /= 2) {
        x = fold(x, __shfl_xor_sync(0xffffffffu, x, distance));
    }
    return x;
}

extern "C" __global__ void __launch_bounds__(THREADS) register_tiles(
    const Vector* q,  // [B, H, nq, D] f32
    const Vector* k,  // [B, H, nk, D] f32
    const Vector* v,  // [B, H, nk, D] f32
    Vector* o,        // [B, H, nq, D] f32
    float* lse,       // [B, H, nq] f32, or null
    int nq, int nk, float scale, int causal
) {
    __shared__ Vector q_smem[BLOCK_Q][VECTORS];
    __shared__ Vector k_smem[BLOCK_KV][VECTORS | 1];  // odd: 8 lanes that read a column of k read all 32 banks
    __shared__ Vector v_smem[BLOCK_KV][VECTORS];
    __shared__ alignas(16) float p_smem[BLOCK_Q][BLOCK_KV | 16];  // two rows that a warp stores lie 16 banks apart
    const int tiles = (nq + BLOCK_Q - 1) / BLOCK_Q;
    const long long matrix = blockIdx.x / tiles;     // b * H + h
    const int first = blockIdx.x % tiles * BLOCK_Q;  // first query of the tile
    const int tx = threadIdx.x % TX;
    const int ty = threadIdx.x / TX;
#pragma unroll 1
    for (int x = threadIdx.x; x < BLOCK_Q * VECTORS; x += THREADS) {
        const int i = first + x / VECTORS;
        q_smem[x / VECTORS][x % VECTORS] = i < nq ? q[(matrix * nq + i) * VECTORS + x % VECTORS] : Vector{};
    }
    float sum_reg[ROWS] = {};  // of this thread's keys
    Vector o_reg[ROWS][PIECES] = {};
    float max_reg[ROWS];
    for (float& max : max_reg) {
        max = -INFINITY;
    }
    const int key_end = causal ? min(nk, first + BLOCK_Q + (nk - nq)) : nk;
    for (int key = 0; key < key_end; key += BLOCK_KV) {
#pragma unroll 2
        for (int x = threadIdx.x; x < BLOCK_KV * VECTORS; x += THREADS) {
            const int j = key + x / VECTORS;
            const long long at = (matrix * nk + j) * VECTORS + x % VECTORS;
            k_smem[x / VECTORS][x % VECTORS] = j < nk ? k[at] : Vector{};
            v_smem[x / VECTORS][x % VECTORS] = j < nk ? v[at] : Vector{};
        }
        __syncthreads();  // so that no thread reads q, k or v before every thread has stored its part
        // ANCHOR: scores
        float s_reg[ROWS][KEYS] = {};
#pragma unroll 1  // the loops in it are unrolled, since registers have no index: 32 * KEYS multiply-adds
        for (int c = 0; c < VECTORS; c++) {
            Vector q_reg[ROWS];
            for (int r = 0; r < ROWS; r++) {
                q_reg[r] = q_smem[ty + TY * r][c];
            }
            for (int n = 0; n < KEYS; n++) {
                const Vector k_reg = k_smem[tx + TX * n][c];
                for (int e = 0; e < 4 * ROWS; e++) {
                    s_reg[e % ROWS][n] += q_reg[e % ROWS].x[e / ROWS] * k_reg.x[e / ROWS];
                }
            }
        }
        // ANCHOR_END: scores
        float shrink_reg[ROWS];  // factor of earlier sums
        for (int r = 0; r < ROWS; r++) {
            float max = max_reg[r];
            const int i = first + ty + TY * r;
            const int seen = causal ? min(nk, i + 1 + (nk - nq)) : nk;  // query i sees the keys below
            for (int n = 0; n < KEYS; n++) {
                s_reg[r][n] = key + tx + TX * n < seen ? s_reg[r][n] * scale : -INFINITY;
                max = fmaxf(max, s_reg[r][n]);
            }
            max = fold_row(max, [](float a, float b) { return fmaxf(a, b); });
            const float shift = max == -INFINITY ? 0.0f : max;  // exp(-inf - -inf) would be NaN
            shrink_reg[r] = __expf(max_reg[r] - shift);
            max_reg[r] = max;
            sum_reg[r] *= shrink_reg[r];
            for (int n = 0; n < KEYS; n++) {
                const float p = __expf(s_reg[r][n] - shift);
                p_smem[ty + TY * r][tx + TX * n] = p;
                sum_reg[r] += p;
            }
        }
        __syncwarp();  // so that no lane reads a row of p before the lanes that share it have stored their parts
        // ANCHOR: accumulate
        Vector pv_reg[ROWS][PIECES] = {};  // of this tile alone: long sums of short sums lose fewer digits
#pragma unroll 1
        for (int j = 0; j < BLOCK_KV; j += 4) {
            Vector p_reg[ROWS];
            for (int r = 0; r < ROWS; r++) {
                p_reg[r] = reinterpret_cast<const Vector&>(p_smem[ty + TY * r][j]);
            }
            for (int x = 0; x < 4; x++) {
                for (int c = 0; c < PIECES && tx + TX * c < VECTORS; c++) {
                    const Vector v_reg = v_smem[j + x][tx + TX * c];
                    for (int e = 0; e < 4 * ROWS; e++) {
                        pv_reg[e / 4][c].x[e % 4] += p_reg[e / 4].x[x] * v_reg.x[e % 4];
                    }
                }
            }
        }
        // ANCHOR_END: accumulate
        for (int r = 0; r < ROWS; r++) {
            for (int x = 0; x < 4 * PIECES; x++) {
                float& sum = o_reg[r][x / 4].x[x % 4];
                sum = sum * shrink_reg[r] + pv_reg[r][x / 4].x[x % 4];
            }
        }
        __syncthreads();  // so that no thread loads the next k or v while another still reads this one
    }
    for (int r = 0; r < ROWS; r++) {
        const int i = first + ty + TY * r;
        const float sum = fold_row(sum_reg[r], [](float a, float b) { return a + b; });
        const float inverse = sum == 0.0f ? 0.0f : 1.0f / sum;
        if (i < nq) {
            for (int c = 0; c < PIECES && tx + TX * c < VECTORS; c++) {
                for (int w = 0; w < 4; w++) {
                    o_reg[r][c].x[w] *= inverse;
                }
                o[(matrix * nq + i) * VECTORS + tx + TX * c] = o_reg[r][c];
            }
            if (tx == 0 && lse != nullptr) {
                lse[matrix * nq + i] = max_reg[r] + logf(sum);  // log(0) = -inf
            }
        }
    }
}
