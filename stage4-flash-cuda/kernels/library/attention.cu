// Attention with every option: masks, window, key lengths, strides, grouped
// heads, any head dimension.
//
// Idea: register tiles, as in 2_register_tiles.cu. A thread computes 8 x KEYS scores: 8 + KEYS
// vectors of 4 from shared memory make 4 * 8 * KEYS multiply-adds. The weights p go through shared
// memory, and p v is computed the same way, 8 rows x a few columns in each thread. mask.cuh tells
// which tiles of keys are skipped, and which scores of a mixed tile are hidden.
//
//     for each tile of keys that is not wholly masked:
//         load k and v
//         s = scale * q k^T + mask        in registers
//         softmax online                  rows by shuffles among the threads that share them
//         p to shared memory, over k; o = c o + p v
//     o = o / l through shared memory, over q; lse = m + log(l)
//
// No bank conflicts: rows of q and k are an odd number of 16-byte words long, and 8 lanes read
// 8 neighbouring rows; rows of p that a warp writes lie TX banks apart; lanes read
// neighbouring columns of v.
//
// Grid:   x = ceil(nq / BLOCK_Q) * B * H.
// Block:  (THREADS). TX = 8 * THREADS / BLOCK_Q neighbouring threads share 8
//         rows, BLOCK_Q / 8 apart.
// Shared: (BLOCK_Q * QK_STRIDE + max(K_FLOATS, P_FLOATS) + BLOCK_KV * V_STRIDE) * 4 bytes, dynamic.
// Reads:  q once; k and v once per block. Writes: o, lse once.
// A query that sees no key gets o = 0, lse = -inf.
// Constants: BLOCK_Q, BLOCK_KV, THREADS; HEAD_DIM, which is D, or more: columns from D on are zeros
// in shared memory, and change no sum; ELEMENT, of q, k, v and o: float unless it is f16 or bf16;
// DROPOUT, 1 to drop weights: see dropout.cuh.
//
// launch: grid=4 block=128 shared=54272
// define: HEAD_DIM=64 BLOCK_Q=64 BLOCK_KV=64 THREADS=128
// args: f32[12800]=random f32[8320]=random f32[8320]=random null null null f32[12800]=uninit
// args: f32[200]=uninit
// args: {{i64=12800,6400,64}, {i64=8320,8320,64}, {i64=8320,8320,64}, {i64=12800,6400,64},
// args:  {i64=0,0,0}, {i64=0,0,0}, i32=2,2, 100,130, 64, -100,30, f32=0.125}
#include "dropout.cuh"
#include "mask.cuh"
#include "prelude.cuh"
#include "problem.cuh"
#include "vector.cuh"

#ifndef ELEMENT
#define ELEMENT float
#endif

constexpr int ROWS = 8;                      // queries of a thread: ty + TY * r
constexpr int TY = BLOCK_Q / ROWS;
constexpr int TX = THREADS / TY;             // threads that share a row
constexpr int KEYS = BLOCK_KV / TX;          // keys of a thread: tx + TX * n
constexpr int VECTORS = (HEAD_DIM + 3) / 4;   // vectors of 4 in a row of q, k or v; the last is filled up with zeros
constexpr int QK_STRIDE = 4 * (VECTORS | 1);  // floats of a row of q_smem and k_smem
constexpr int V_STRIDE = 4 * VECTORS;
constexpr int P_STRIDE = BLOCK_KV + TX % 32;
constexpr int K_FLOATS = BLOCK_KV * QK_STRIDE;
constexpr int P_FLOATS = BLOCK_Q * P_STRIDE;
// Columns of o of a thread: PIECES times WIDTH neighbours, the widest vector
// that leaves no thread idle.
constexpr int WIDTH = HEAD_DIM % (4 * TX) == 0 ? 4 : HEAD_DIM % (2 * TX) == 0 ? 2 : 1;
constexpr int PIECES = (HEAD_DIM + WIDTH * TX - 1) / (WIDTH * TX);
constexpr bool RAGGED = HEAD_DIM % (WIDTH * TX) != 0;  // some threads have a column less
// Pieces that p v is computed for at a time: all, a half or one of them, so
// that the registers suffice.
constexpr int GROUP = PIECES * WIDTH <= 10 ? PIECES : PIECES * WIDTH <= 12 ? (PIECES + 1) / 2 : 1;
// Minimum resident blocks per SM, which limits the registers of a thread; 0 leaves both to the
// compiler. Up to D = 64, 384 threads are enough to hide latency, and have 170 registers each.
// Without the bound the compiler takes 96 or 128, and spills.
constexpr int RESIDENT = HEAD_DIM <= 64 ? 384 / THREADS : 0;
constexpr float LOG2_E = 1.4426950408889634f;

static_assert(BLOCK_Q % ROWS == 0 && THREADS % TY == 0, "the threads cover the tile");
static_assert(TX == 8 || TX == 16 || TX == 32, "the threads that share rows are lanes of one warp, and one for each row at least");
static_assert(BLOCK_KV % TX == 0 && BLOCK_KV % 4 == 0, "every thread has as many keys as the others");

// Folds a value over the TX lanes that share a row; all of them get the result.
template <typename Fold>
__device__ __forceinline__ float fold_row(float value, Fold fold) {
#pragma unroll
    for (int distance = TX / 2; distance > 0; distance /= 2) {
        value = fold(value, __shfl_xor_sync(0xffffffffu, value, distance));
    }
    return value;
}

// Calls f(r, n) for each of a thread's scores, unrolled, so that f can index registers.
template <typename F>
__device__ __forceinline__ void for_each_score(F f) {
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
#pragma unroll
        for (int n = 0; n < KEYS; n++) {
            f(r, n);
        }
    }
}

// ANCHOR: kernel
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) attention(
    const ELEMENT* q,          // [B, H, nq, D] f32, f16 or bf16
    const ELEMENT* k,          // [B, H / group, nk, D] f32, f16 or bf16
    const ELEMENT* v,          // [B, H / group, nk, D] f32, f16 or bf16
    const float* mask,         // [B, H, nq, nk] f32, or null
    const int* key_lengths,    // [B] i32, or null
    const unsigned* blocks,    // [B, H, ceil(nq / 64), words] u32, or null
    ELEMENT* o,                // [B, H, nq, D] f32, f16 or bf16
    float* lse,                // [B, H, nq] f32, packed, or null
    Problem problem
) {
    extern __shared__ __align__(16) float smem[];
    float* q_smem = smem;                          // [query][column]; at the end, o
    float* k_smem = q_smem + BLOCK_Q * QK_STRIDE;  // [key][column]
    float* p_smem = k_smem;                        // [query][key]
    float* v_smem = k_smem + (K_FLOATS > P_FLOATS ? K_FLOATS : P_FLOATS);  // [key][column]

    const QueryTile queries = query_tile<BLOCK_Q>(problem, blockIdx.x);
    const int first = queries.first;
    const int end = queries.end;
    const Mask masks(mask, key_lengths, blocks, problem, queries.batch, queries.head);
    const ELEMENT* q_head = matrix_of(q, problem.q, queries.batch, queries.head);
    const ELEMENT* k_head = matrix_of(k, problem.k, queries.batch, queries.head / problem.group);
    const ELEMENT* v_head = matrix_of(v, problem.v, queries.batch, queries.head / problem.group);
    const int columns = problem.head_dim;  // D
    const int tx = threadIdx.x % TX;
    const int ty = threadIdx.x / TX;

    // ANCHOR: load
    load_rows<BLOCK_Q, QK_STRIDE>(q_smem, q_head, problem.q.row, first, end, columns);
    // ANCHOR_END: load

    float max_reg[ROWS];                    // of each row, the same in the threads that share it
    float sum_reg[ROWS] = {};               // of this thread's keys
    float o_reg[ROWS][PIECES][WIDTH] = {};  // columns WIDTH * (tx + TX * piece) + w
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        max_reg[r] = -INFINITY;
    }

    const int key_end = masks.end_of(end);
    for (int key = masks.begin_of(first) / BLOCK_KV * BLOCK_KV; key < key_end; key += BLOCK_KV) {
        const Tile tile = masks.tile(first, end, key, key + BLOCK_KV);
        if (tile == Tile::Masked) {
            continue;  // the whole block agrees, so no thread waits at a barrier in vain
        }
        load_rows<BLOCK_KV, QK_STRIDE>(k_smem, k_head, problem.k.row, key, masks.keys, columns);
        load_rows<BLOCK_KV, V_STRIDE>(v_smem, v_head, problem.v.row, key, masks.keys, columns);
        __syncthreads();  // so that no thread reads q, k or v before every thread has stored its part

        // ANCHOR: scores
        float s_reg[ROWS][KEYS] = {};
#pragma unroll 1
        for (int d = 0; d < 4 * VECTORS; d += 4) {
            Vector<4> q_reg[ROWS];
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                q_reg[r] = vector_at<4>(q_smem + (ty + TY * r) * QK_STRIDE + d);
            }
#pragma unroll
            for (int n = 0; n < KEYS; n++) {
                const Vector<4> k_reg = vector_at<4>(k_smem + (tx + TX * n) * QK_STRIDE + d);
#pragma unroll
                for (int x = 0; x < 4; x++) {
#pragma unroll
                    for (int r = 0; r < ROWS; r++) {
                        s_reg[r][n] += q_reg[r].x[x] * k_reg.x[x];
                    }
                }
            }
        }
        // ANCHOR_END: scores
        __syncthreads();  // so that no thread stores scores over k while another still reads k

        // ANCHOR: mask
        float* p_thread = p_smem + ty * P_STRIDE + tx;  // this thread's score of row r and key n is TY r rows, TX n floats on
        for_each_score([&](int r, int n) { s_reg[r][n] *= problem.scale; });
        if (tile == Tile::Mixed) {
            // By way of shared memory, because a loop that is not unrolled cannot index registers;
            // unrolled, it would take as much code and as many registers as all the rest. A thread
            // accesses only its own scores there. Rows beyond the last query are left as they are:
            // their results are not stored.
            const int rows = min(ROWS, (end - first + TY - 1) / TY);
            for_each_score([&](int r, int n) { p_thread[TY * r * P_STRIDE + TX * n] = s_reg[r][n]; });
#pragma unroll 1
            for (int e = 0; e < rows * KEYS; e++) {
                float& s = p_thread[TY * (e / KEYS) * P_STRIDE + TX * (e % KEYS)];
                s = masks.masked(s, first + ty + TY * (e / KEYS), key + tx + TX * (e % KEYS));
            }
            for_each_score([&](int r, int n) { s_reg[r][n] = p_thread[TY * r * P_STRIDE + TX * n]; });
        }

        // ANCHOR_END: mask
        // ANCHOR: softmax
        float shrink_reg[ROWS];  // factor of earlier sums
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            float max = max_reg[r];
#pragma unroll
            for (int n = 0; n < KEYS; n++) {
                max = fmaxf(max, s_reg[r][n]);
            }
            max = fold_row(max, [](float a, float b) { return fmaxf(a, b); });
            // exp(-inf - -inf) is NaN: where nothing has been seen, subtract nothing,
            // and every exponential is 0.
            const float shift = max == -INFINITY ? 0.0f : max;
            shrink_reg[r] = ex2_approx_ftz_f32((max_reg[r] - shift) * LOG2_E);
            max_reg[r] = max;
            sum_reg[r] *= shrink_reg[r];
#pragma unroll
            for (int n = 0; n < KEYS; n++) {
                const float p = ex2_approx_ftz_f32((s_reg[r][n] - shift) * LOG2_E);
                p_thread[TY * r * P_STRIDE + TX * n] = p;
                sum_reg[r] += p;
            }
        }
        // ANCHOR_END: softmax
        __syncwarp();  // so that no lane reads a row of p before the lanes that share it have stored their parts
        drop_weights<ROWS, TY, TX, BLOCK_KV, P_STRIDE>(p_smem, problem, queries.batch, queries.head, first, key, tx, ty);

        // ANCHOR: accumulate
        const int seen = min(BLOCK_KV, masks.keys - key);  // valid keys in this tile; the rest have p = 0
#pragma unroll
        for (int group = 0; group < PIECES; group += GROUP) {
            float pv_reg[ROWS][GROUP][WIDTH] = {};  // of this tile alone: long sums of short sums lose fewer digits
#pragma unroll 1
            for (int j = 0; j < seen; j += 4) {
                Vector<4> p_reg[ROWS];
#pragma unroll
                for (int r = 0; r < ROWS; r++) {
                    p_reg[r] = vector_at<4>(p_smem + (ty + TY * r) * P_STRIDE + j);
                }
#pragma unroll
                for (int x = 0; x < 4; x++) {
#pragma unroll
                    for (int g = 0; g < GROUP; g++) {
                        const int column = WIDTH * (tx + TX * (group + g));
                        if (group + g < PIECES && (!RAGGED || column < HEAD_DIM)) {
                            const Vector<WIDTH> v_reg = vector_at<WIDTH>(v_smem + (j + x) * V_STRIDE + column);
#pragma unroll
                            for (int w = 0; w < WIDTH; w++) {
#pragma unroll
                                for (int r = 0; r < ROWS; r++) {
                                    pv_reg[r][g][w] += p_reg[r].x[x] * v_reg.x[w];
                                }
                            }
                        }
                    }
                }
            }
#pragma unroll
            for (int g = 0; g < GROUP && group + g < PIECES; g++) {
#pragma unroll
                for (int r = 0; r < ROWS; r++) {
#pragma unroll
                    for (int w = 0; w < WIDTH; w++) {
                        float& o_sum = o_reg[r][group + g][w];
                        o_sum = o_sum * shrink_reg[r] + pv_reg[r][g][w];
                    }
                }
            }
        }
        // ANCHOR_END: accumulate
        __syncthreads();  // so that no thread loads the next k or v while another still reads p or v
    }

    // ANCHOR: epilogue
    __syncthreads();  // so that no thread stores o over q while another still loads or reads q
    float own_max = 0.0f, own_sum = 0.0f;  // of row r = tx, so that one logarithm does for all rows of a thread
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const int row = ty + TY * r;
        const float sum = fold_row(sum_reg[r], [](float a, float b) { return a + b; });
        const float scale = sum == 0.0f ? 0.0f : dropout_of(problem).scale / sum;
#pragma unroll
        for (int piece = 0; piece < PIECES; piece++) {
            const int column = WIDTH * (tx + TX * piece);
            if (!RAGGED || column < HEAD_DIM) {
                Vector<WIDTH> o_vector;
#pragma unroll
                for (int w = 0; w < WIDTH; w++) {
                    o_vector.x[w] = o_reg[r][piece][w] * scale;
                }
                *reinterpret_cast<Vector<WIDTH>*>(q_smem + row * QK_STRIDE + column) = o_vector;
            }
        }
        if (tx == r) {
            own_max = max_reg[r];
            own_sum = sum;
        }
    }
    const int i = first + ty + TY * tx;
    if (tx < ROWS && i < end && lse != nullptr) {
        const long long matrix = static_cast<long long>(queries.batch) * problem.heads + queries.head;
        lse[matrix * problem.nq + i] = own_sum == 0.0f ? -INFINITY : own_max + logf(own_sum);
    }
    __syncthreads();  // so that no thread reads o before every thread has stored its part
    ELEMENT* o_head = matrix_of(o, problem.o, queries.batch, queries.head);
    store_rows<QK_STRIDE>(q_smem, o_head, problem.o.row, first, end, columns);
    // ANCHOR_END: epilogue
}
// ANCHOR_END: kernel
