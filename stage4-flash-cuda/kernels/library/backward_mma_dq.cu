// The gradient by q in half precision, on tensor cores, with every option: masks, window, key
// lengths, strides, grouped heads, any head dimension.
//
// Idea: as in backward/2_mma_dq.cu. A warp has rows of queries, and the keys pass by. mask.cuh
// tells which tiles of keys are skipped, and which scores of a mixed tile are hidden:
//
//     p = exp(scale * q . k + mask - lse)    dp = dO . v    ds = p * (dp - delta)
//     dq = scale * sum over j of ds k
//
// p waits in f16, also where tensors are bf16, while dO v^T is multiplied: with both in f32 beside
// the sums a thread has too few registers. With dropout, dp is times its factor. A hidden score has
// ds = 0, whatever q . k and dO . v are.
//
// Grid:   x = ceil(nq / BLOCK_Q) * B * H.
// Block:  (THREADS). A warp has BLOCK_Q * 32 / THREADS queries. half_scores.cuh says which rows and
//         columns a lane has.
// Shared: (BLOCK_Q + BLOCK_KV) * 2 * STRIDE * 16 + BLOCK_Q * 8 bytes, dynamic: half_rows.cuh has
//         STRIDE.
// Reads:  q, dO, lse and delta once; k and v once per block. Writes: dq once; zeros for a query
//         that sees no key.
// Constants: BLOCK_Q, BLOCK_KV, THREADS; HEAD_DIM, which is D, or more; ELEMENT: f16 or bf16;
// DROPOUT, 1 to drop weights: see dropout.cuh.
//
// arch: compute_80
// launch: grid=2 block=128 shared=50176
// define: HEAD_DIM=64 BLOCK_Q=128 BLOCK_KV=64 THREADS=128 ELEMENT=f16
// args: f16[12800]=random f16[16640]=random f16[16640]=random f16[12800]=random
// args: f32[200]=ones f32[200]=random f16[12800]=uninit null null null
// args: {{i64=12800,6400,64}, {i64=16640,8320,64}, {i64=16640,8320,64}, {i64=12800,6400,64},
// args:  {i64=0,0,0}, {i64=0,0,0}, i32=2,1, 100,130, 64, -100,30, f32=0.125}
#include "half_products.cuh"

constexpr int TILES = 2 * BLOCK_Q / THREADS;  // of 16 queries, of a warp
constexpr int SCORES = BLOCK_KV / 2 * TILES;  // of a lane
constexpr int STEPS = HEAD_DIM > 64 ? 2 : 4;
// dO v^T is multiplied in parts where the sums leave registers for no more.
constexpr int PARTS = HEAD_DIM > 64 && BLOCK_KV > 32 ? 2 : 1;
constexpr int N = BLOCK_KV / 8 / PARTS;  // tiles of 8 keys, of a part
// The first rows of tensors in shared memory.
constexpr int Q_ROWS = 0;
constexpr int D_O_ROWS = BLOCK_Q;
constexpr int K_ROWS = 2 * BLOCK_Q;
constexpr int V_ROWS = K_ROWS + BLOCK_KV;
constexpr int END_ROWS = V_ROWS + BLOCK_KV;
static_assert(TILES * THREADS == 2 * BLOCK_Q && BLOCK_KV % 16 == 0, "whole tiles");
static_assert(Mask::BLOCK % BLOCK_KV == 0 && Mask::BLOCK % (16 * TILES) == 0, "squares of whole tiles");

extern "C" __global__ void __launch_bounds__(THREADS) backward_mma_dq(
    const Half* q,             // [B, H, nq, D] f16 or bf16
    const Half* k,             // [B, H / group, nk, D] f16 or bf16
    const Half* v,             // [B, H / group, nk, D] f16 or bf16
    const Half* d_o,           // [B, H, nq, D] f16 or bf16, with the strides of o
    const float* lse,          // [B, H, nq] f32, packed
    const float* delta,        // [B, H, nq] f32, packed
    Half* dq,                  // [B, H, nq, D] f16 or bf16, with the strides of q
    const float* mask,         // [B, H, nq, nk] f32, or null
    const int* key_lengths,    // [B] i32, or null
    const unsigned* blocks,    // [B, H, ceil(nq / 64), words] u32, or null
    Problem problem
) {
    extern __shared__ __align__(128) Vector rows_smem[];
    float* lse_smem = reinterpret_cast<float*>(rows_smem + END_ROWS * STRIDE);
    float* delta_smem = lse_smem + BLOCK_Q;
    const QueryTile queries = query_tile<BLOCK_Q>(problem, blockIdx.x);
    const int first = queries.first;
    const int end = queries.end;
    int batch = queries.batch;
    int head = queries.head;
    const int kv_head = head / problem.group;
    const int columns = problem.head_dim;  // D
    const Mask masks(mask, key_lengths, blocks, problem, queries.batch, queries.head);
    const Half* q_head = matrix_of(q, problem.q, queries.batch, queries.head);
    const Half* d_o_head = matrix_of(d_o, problem.o, queries.batch, queries.head);
    const Half* k_head = matrix_of(k, problem.k, queries.batch, kv_head);
    const Half* v_head = matrix_of(v, problem.v, queries.batch, kv_head);
    const int row = threadIdx.x / 32 * 16 * TILES;  // first query of the warp, in the tile
    const int key_end = masks.end_of(end);
    // The first tile of keys from `key` on that is not wholly masked; the block mask alone masks
    // tiles between begin_of and end_of. The whole block agrees on it.
    const auto next_tile = [&](int key) {
        if (masks.blocks != nullptr) {
            while (key < key_end && masks.tile(first, end, key, key + BLOCK_KV) == Tile::Masked) {
                key += BLOCK_KV;
            }
        }
        return key;
    };
    const bool aligned = is_aligned(q_head, problem.q.row, columns) && is_aligned(d_o_head, problem.o.row, columns) &&
                         is_aligned(k_head, problem.k.row, columns) && is_aligned(v_head, problem.v.row, columns);
    const Rows rows(rows_smem, columns, aligned, threadIdx.x);
    rows.clear(END_ROWS);
    rows.copy<Q_ROWS, BLOCK_Q>(q_head, problem.q.row, first, end);
    rows.copy<D_O_ROWS, BLOCK_Q>(d_o_head, problem.o.row, first, end);
    const long long before = number_of(problem, queries.batch, queries.head) * problem.nq;  // rows
    bool far = false;  // some score may be FAR from 0
    for (int x = threadIdx.x; x < BLOCK_Q; x += THREADS) {
        const bool exists = first + x < end;
        const float row_lse = exists ? finite_or_positive(lse[before + first + x]) : INFINITY;
        far |= FAR < fabsf(row_lse) && row_lse < INFINITY;
        lse_smem[x] = row_lse;
        delta_smem[x] = exists ? delta[before + first + x] : 0.0f;
    }
    far = __syncthreads_or(far);  // and no thread reads a row of lse or delta before it is there
    int key = next_tile(masks.begin_of(first) / BLOCK_KV * BLOCK_KV);
    if (key < key_end) {
        rows.copy<V_ROWS, BLOCK_KV>(v_head, problem.v.row, key, masks.keys);
    }
    float dq_reg[VECTORS][TILES][4] = {};  // times UNIT, as multiples of 2^-exponent
    int exponent = FIRST_EXPONENT;
#pragma unroll 1
    while (key < key_end) {
        const Mask tile_masks(mask, key_lengths, blocks, problem, batch, head);  // anew, so that no register keeps it
        Rows(rows_smem, problem.head_dim, aligned, thread_anew())
            .copy<K_ROWS, BLOCK_KV>(k_head, problem.k.row, key, tile_masks.keys);
        const int next = next_tile(key + BLOCK_KV);
        cp_async_wait_group<0>();
        __syncthreads();  // so that no thread reads a row before every thread's part of it is there
        // ANCHOR: gradients
        // As the warp's own queries see it.
        const int row_end = min(first + row + 16 * TILES, problem.nq);
        const Tile tile = first + row < row_end ? tile_masks.tile(first + row, row_end, key, key + BLOCK_KV) : Tile::Masked;
        unsigned weight_reg[BLOCK_KV / 16][TILES][4];  // p in f16, then ds
        if (tile != Tile::Masked) {
            float s_reg[BLOCK_KV / 8][TILES][4] = {};
            multiply<STEPS>(s_reg, a_lane(rows_smem, Q_ROWS + row, lane_anew()), bt_lane(rows_smem, K_ROWS, lane_anew()));
            const int g = lane_anew() / 4;
            if (tile == Tile::Mixed || far) {
                // Opaque: else the compiler keeps the addresses of masks in registers.
                asm volatile("" : "+r"(batch), "+r"(head));
                const Mask again(mask, key_lengths, blocks, problem, batch, head);
                mask_scores<RowsAre::Queries>(s_reg, again, problem.scale, first + row, key);
#pragma unroll
                for (int e = 0; e < SCORES; e++) {
                    float& s = s_reg[e / 4 / TILES][e / 4 % TILES][e % 4];
                    const float row_lse = lse_smem[row + g + e / 2 % (2 * TILES) * 8];
                    s = ex2_approx_ftz_f32(fmaf(s - row_lse, LOG2_E, UNIT_LOG2));
                }
            } else {
                const float factor = problem.scale * LOG2_E;
#pragma unroll
                for (int w = 0; w < 2 * TILES; w++) {
                    const float power = fmaf(-LOG2_E, lse_smem[row + g + 8 * w], UNIT_LOG2);
                    for (int e = 0; e < BLOCK_KV / 4; e++) {
                        float& s = s_reg[e / 2][w / 2][w % 2 * 2 + e % 2];
                        s = ex2_approx_ftz_f32(fmaf(factor, s, power));
                    }
                }
            }
#pragma unroll
            for (int e = 0; e < SCORES / 2; e++) {
                const float* pair = &s_reg[e / 4 / TILES * 2 + e / 2 % 2][e / 4 % TILES][e % 2 * 2];
                weight_reg[e / 4 / TILES][e / 4 % TILES][e % 4] = cvt_rn_f16x2_f32(pair[0], pair[1]);
            }
            unsigned long long kept = 0;
            if constexpr (DROPOUT) {
                kept = kept_of_queries<BLOCK_KV / 8, TILES>(problem, batch, head, first + row, key);
            }
#pragma unroll
            for (int part = 0; part < PARTS; part++) {
                float dp_reg[N][TILES][4] = {};
                multiply<STEPS>(
                    dp_reg, a_lane(rows_smem, D_O_ROWS + thread_anew() / 32 * 16 * TILES, lane_anew()),
                    bt_lane(rows_smem, V_ROWS + 8 * N * part, lane_anew())
                );
                const int g = lane_anew() / 4;
                const float unit = power_of_2(exponent);
                const float factor = unit * dropout_of(problem).scale;
#pragma unroll
                for (int w = 0; w < 2 * TILES; w++) {
                    const float row_delta = -unit * delta_smem[row + g + 8 * w];
                    for (int e = 0; e < 2 * N; e++) {
                        float& dp = dp_reg[e / 2][w / 2][w % 2 * 2 + e % 2];
                        const int bit = ((part * N + e / 2) * TILES + w / 2) * 4 + w % 2 * 2 + e % 2;
                        dp = fmaf(factor, DROPOUT && !(kept >> bit & 1) ? 0.0f : dp, row_delta);
                    }
                }
                if (tile == Tile::Mixed) {
#pragma unroll
                    for (int e = 0; e < 4 * N * TILES; e++) {
                        float& dp = dp_reg[e / 4 / TILES][e / 4 % TILES][e % 4];
                        const int n = part * N + e / 4 / TILES;
                        const unsigned pair = weight_reg[n / 2][e / 4 % TILES][n % 2 * 2 + e / 2 % 2];
                        dp = (pair >> e % 2 * 16 & 0xffffu) == 0 ? 0.0f : dp;
                    }
                }
                lower_exponent(exponent, dp_reg, dq_reg);
                const unsigned k_lane = a_lane(rows_smem, K_ROWS, lane_anew());
#pragma unroll
                for (int j = 0; j < N / 2; j++) {
                    unsigned(&ds_reg)[TILES][4] = weight_reg[part * N / 2 + j];
                    for (int m = 0; m < TILES; m++) {
                        for (int e = 0; e < 4; e++) {
                            const float* pair = &dp_reg[2 * j + e / 2][m][e % 2 * 2];
                            ds_reg[m][e] = weighted_pair<f16>(ds_reg[m][e], pair[0], pair[1]);
                        }
                    }
                    if (part < PARTS - 1) {
                        accumulate(dq_reg, ds_reg, k_lane, 8 * N * part + 16 * j);
                    }
                }
            }
        }
        __syncthreads();  // so that no thread copies the next v while another still reads this one
        if (next < key_end) {
            Rows(rows_smem, problem.head_dim, aligned, thread_anew())
                .copy<V_ROWS, BLOCK_KV>(v_head, problem.v.row, next, tile_masks.keys);
        }
        if (tile != Tile::Masked) {
            const unsigned k_lane = a_lane(rows_smem, K_ROWS, lane_anew());
#pragma unroll
            for (int j = (PARTS - 1) * N / 2; j < PARTS * N / 2; j++) {
                accumulate(dq_reg, weight_reg[j], k_lane, 16 * j);
            }
        }
        // ANCHOR_END: gradients
        __syncthreads();  // so that no thread copies the next k while another still reads this one
        key = next;
    }
    cp_async_wait_group<0>();
    __syncthreads();  // so that no thread stores dq over q before all of q is there: there may be no keys
    store_sums(
        matrix_of(dq, problem.q, queries.batch, queries.head), problem.q.row, rows_smem + Q_ROWS * STRIDE, dq_reg,
        problem.scale / UNIT * power_of_2(-exponent), row, first, end, columns
    );
}
