// Attention in half precision with every option: masks, window, key lengths, strides, grouped
// heads, any head dimension.
//
// Idea: as in 7_reuse.cu. A warp has 16 * TILES queries, and multiplies each fragment of k and v by
// TILES tiles of q. mask.cuh tells which tiles of keys are skipped, and which scores of a mixed
// tile are hidden.
//
// Grid:   x = ceil(nq / BLOCK_Q) * B * H.
// Block:  (THREADS). BLOCK_Q / (THREADS / 32) = 16 * TILES queries a warp.
// Shared: (BLOCK_Q + 2 * BLOCK_KV) * STRIDE * 16 bytes, dynamic: half_rows.cuh has STRIDE.
// Reads:  q once; k and v once per block. Writes: o, lse once.
// A query that sees no key gets o = 0, lse = -inf.
// Constants: BLOCK_Q, BLOCK_KV, THREADS; HEAD_DIM, which is D, or more; ELEMENT: f16 or bf16;
// DROPOUT, 1 to drop weights: see dropout.cuh.
//
// arch: compute_80
// launch: grid=4 block=64 shared=24576
// define: HEAD_DIM=64 BLOCK_Q=64 BLOCK_KV=64 THREADS=64 ELEMENT=f16
// args: f16[12800]=random f16[8320]=random f16[8320]=random null null null f16[12800]=uninit f32[200]=uninit
// args: {{i64=12800,6400,64}, {i64=8320,8320,64}, {i64=8320,8320,64}, {i64=12800,6400,64}, {i64=0,0,0}, {i64=0,0,0},
// args:  i32=2,2, 100,130, 64, -100,30, f32=0.125}
#include "half_rows.cuh"
#include "half_scores.cuh"
#include "mma.cuh"
#include "prelude.cuh"
#include "problem.cuh"

constexpr int TILES = 2 * BLOCK_Q / THREADS;    // of 16 queries, of a warp
constexpr int SCORES = BLOCK_KV / 2 * TILES;    // scores of a lane
constexpr float LOG2_E = 1.44269504f;
constexpr float LOWEST = -3.40282347e38f;       // of all finite f32
constexpr float ROOM = 5.5f;                    // ln of the largest p, about 2^8
constexpr float FAR = 65536.0f;                 // from here on products are rounded first
static_assert(TILES * THREADS == 2 * BLOCK_Q && BLOCK_KV % 16 == 0, "whole tiles");
static_assert(Mask::BLOCK % BLOCK_KV == 0 && Mask::BLOCK % (16 * TILES) == 0, "squares of whole tiles");

extern "C" __global__ void __launch_bounds__(THREADS) attention_mma(
    const Half* q,             // [B, H, nq, D] f16 or bf16
    const Half* k,             // [B, H / group, nk, D] f16 or bf16
    const Half* v,             // [B, H / group, nk, D] f16 or bf16
    const float* mask,         // [B, H, nq, nk] f32, or null
    const int* key_lengths,    // [B] i32, or null
    const unsigned* blocks,    // [B, H, ceil(nq / 64), words] u32, or null
    Half* o,                   // [B, H, nq, D] f16 or bf16
    float* lse,                // [B, H, nq] f32, packed, or null
    Problem problem
) {
    extern __shared__ __align__(128) Vector q_smem[];
    Vector* k_smem = q_smem + BLOCK_Q * STRIDE;
    Vector* v_smem = k_smem + BLOCK_KV * STRIDE;
    const QueryTile queries = query_tile<BLOCK_Q>(problem, blockIdx.x);
    const int first = queries.first;
    const int end = queries.end;
    const Mask masks(mask, key_lengths, blocks, problem, queries.batch, queries.head);
    const Half* q_head = matrix_of(q, problem.q, queries.batch, queries.head);
    const Half* k_head = matrix_of(k, problem.k, queries.batch, queries.head / problem.group);
    const Half* v_head = matrix_of(v, problem.v, queries.batch, queries.head / problem.group);
    const int columns = problem.head_dim;
    const int row = threadIdx.x / 32 * 16 * TILES;  // first query of the warp, in the tile
    const int lane = threadIdx.x % 32;
    const int g = lane / 4;
    const int t = lane % 4;
    const float scale = fabsf(problem.scale);
    const float factor = fmaxf(scale * LOG2_E, 1e-37f);  // so small, it makes all scores 0, as 0 does
    // The first tile of keys from `key` on that is not wholly masked; the block mask alone masks
    // tiles between begin_of and end_of. The whole block agrees on it.
    const int key_end = masks.end_of(end);
    const auto next_tile = [&](int key) {
        if (masks.blocks != nullptr) {
            while (key < key_end && masks.tile(first, end, key, key + BLOCK_KV) == Tile::Masked) {
                key += BLOCK_KV;
            }
        }
        return key;
    };
    const bool aligned = is_aligned(q_head, problem.q.row, columns) && is_aligned(k_head, problem.k.row, columns) &&
                         is_aligned(v_head, problem.v.row, columns);
    const Rows rows(q_smem, columns, aligned, threadIdx.x);
    rows.clear(BLOCK_Q + 2 * BLOCK_KV);
    rows.copy<0, BLOCK_Q>(q_head, problem.q.row, first, end);
    int key = next_tile(masks.begin_of(first) / BLOCK_KV * BLOCK_KV);
    if (key < key_end) {
        rows.copy<BLOCK_Q, BLOCK_KV>(k_head, problem.k.row, key, masks.keys);
    }
    if (problem.scale < 0.0f) {  // -s has its maximum where s has its minimum
        cp_async_wait_group<0>();
        __syncthreads();  // so that no thread changes the sign of a vector before it is there
        for (int x = threadIdx.x; x < BLOCK_Q * STRIDE * 4; x += THREADS) {
            if (x / 4 % STRIDE < VECTORS) {
                q_smem[x / 4].x[x % 4] ^= 0x80008000u;
            }
        }
    }
    unsigned q_lane = shared_address(&q_smem[at(row + lane % 16, lane / 16)]);
    unsigned k_lane = shared_address(&k_smem[at(lane / 16 * 8 + lane % 8, lane / 8 % 2)]);
    unsigned v_lane = shared_address(&v_smem[at(lane % 16, lane / 16)]);
    // The row of score e among those of its lane.
    const auto pair_row = [](int e) { return e / 4 % TILES * 2 + e / 2 % 2; };
    float o_reg[VECTORS][TILES][4] = {};
    float sum_reg[2 * TILES] = {};  // of rows g + 8 w: this lane's keys
    float max_reg[2 * TILES];       // what is subtracted from scores: at most ROOM below their maximum
#pragma unroll
    for (float& max : max_reg) {
        max = LOWEST;
    }
    bool far = true;  // some maximum of the warp is so large that products are rounded first
#pragma unroll 1
    while (key < key_end) {
        // Opaque: else the compiler keeps addresses of all vectors in registers.
        asm volatile("" : "+r"(q_lane), "+r"(k_lane), "+r"(v_lane));
        cp_async_wait_group<0>();
        // So that no thread reads q or k before all of it is there, or copies v while it is read.
        __syncthreads();
        rows.copy<BLOCK_Q + BLOCK_KV, BLOCK_KV>(v_head, problem.v.row, key, masks.keys);
        float s_reg[BLOCK_KV / 8][TILES][4] = {};
#pragma unroll
        for (int c = 0; c < VECTORS; c += 2) {
            unsigned q_reg[TILES][4];  // tiles of 16 rows of q x 16 columns
            for (int m = 0; m < TILES; m++) {
                ldmatrix_x4(q_reg[m], behind(q_lane, 16 * m, c));
            }
            for (int n = 0; n < BLOCK_KV / 8; n += 2) {
                unsigned k_reg[4];  // 16 rows of k x 16 columns: b0 and b1 of 8 keys, then of the next 8
                ldmatrix_x4(k_reg, behind(k_lane, 8 * n, c));
                for (int m = 0; m < TILES; m++) {
                    Half::mma_m16n8k16(s_reg[n][m], q_reg[m], k_reg[0], k_reg[1], s_reg[n][m]);
                    Half::mma_m16n8k16(s_reg[n + 1][m], q_reg[m], k_reg[2], k_reg[3], s_reg[n + 1][m]);
                }
            }
        }
        const bool mixed = key < masks.seen_begin(end) || key + BLOCK_KV > masks.seen_end(first) ||
                           (masks.blocks != nullptr && masks.tile(first, end, key, key + BLOCK_KV) == Tile::Mixed);
        const int next = next_tile(key + BLOCK_KV);
        __syncthreads();  // so that no thread copies the next k while another still reads this one
        if (next < key_end) {
            rows.copy<BLOCK_Q, BLOCK_KV>(k_head, problem.k.row, next, masks.keys);
        } else {
            cp_async_commit_group();
        }
        float unit = scale;  // of the scores
        if (mixed) {
            unit = 1.0f;
            mask_scores<RowsAre::Queries>(s_reg, masks, scale, first + row, key);
        }
        float tile_max_reg[2 * TILES];
        bool grows = false;
#pragma unroll
        for (int w = 0; w < 2 * TILES; w++) {
            float max = -INFINITY;
            for (int e = 0; e < BLOCK_KV / 4; e++) {
                max = fmaxf(max, s_reg[e / 2][w / 2][w % 2 * 2 + e % 2]);
            }
            tile_max_reg[w] = unit * row_max(max);
            grows |= tile_max_reg[w] > max_reg[w] + ROOM;
        }
        if (__any_sync(0xffffffffu, grows)) {
            far = false;
#pragma unroll
            for (int w = 0; w < 2 * TILES; w++) {
                const float max = fmaxf(max_reg[w], tile_max_reg[w]);
                // The factor of earlier sums.
                const float shrink = ex2_approx_ftz_f32((max_reg[w] - max) * LOG2_E);
                max_reg[w] = max;
                far |= fabsf(max) > FAR;
                sum_reg[w] *= shrink;
                for (int e = 0; e < VECTORS * 2; e++) {
                    o_reg[e / 2][w / 2][w % 2 * 2 + e % 2] *= shrink;
                }
            }
            far = __any_sync(0xffffffffu, far);
        }
        if (mixed || far) {  // the difference first: scores may be as low as -3.4e38
#pragma unroll
            for (int e = 0; e < SCORES; e++) {
                float& s = s_reg[e / 4 / TILES][e / 4 % TILES][e % 4];
                s = ex2_approx_ftz_f32((__fmul_rn(unit, s) - max_reg[pair_row(e)]) * LOG2_E);
            }
        } else {
#pragma unroll
            for (int e = 0; e < SCORES; e++) {
                float& s = s_reg[e / 4 / TILES][e / 4 % TILES][e % 4];
                s = ex2_approx_ftz_f32(fmaf(factor, s, -LOG2_E * max_reg[pair_row(e)]));
            }
        }
#pragma unroll
        for (int e = 0; e < SCORES; e++) {
            sum_reg[pair_row(e)] += s_reg[e / 4 / TILES][e / 4 % TILES][e % 4];
        }
        if constexpr (DROPOUT) {
            const unsigned long long kept =
                kept_of_queries<BLOCK_KV / 8, TILES>(problem, queries.batch, queries.head, first + row, key);
#pragma unroll
            for (int e = 0; e < SCORES; e++) {
                float& s = s_reg[e / 4 / TILES][e / 4 % TILES][e % 4];
                s = kept >> e & 1 ? s : 0.0f;
            }
        }
        cp_async_wait_group<1>();  // v is there; the next k may be on its way
        __syncthreads();  // so that no thread reads v before every thread's part of it is there
#pragma unroll
        for (int j = 0; j < BLOCK_KV; j += 16) {
            unsigned p_reg[TILES][4];
            for (int e = 0; e < 4 * TILES; e++) {
                const float* s = &s_reg[j / 8 + e / 2 % 2][e / 4][e % 2 * 2];
                p_reg[e / 4][e % 4] = Half::round_pair(s[0], s[1]);
            }
            for (int n = 0; n < VECTORS; n += 2) {
                unsigned v_reg[4];  // 16 rows of v x 16 columns: b0 and b1 of 8 columns, then of the next 8
                ldmatrix_x4_trans(v_reg, behind(v_lane, j, n));
                for (int m = 0; m < TILES; m++) {
                    Half::mma_m16n8k16(o_reg[n][m], p_reg[m], v_reg[0], v_reg[1], o_reg[n][m]);
                    Half::mma_m16n8k16(o_reg[n + 1][m], p_reg[m], v_reg[2], v_reg[3], o_reg[n + 1][m]);
                }
            }
        }
        key = next;
    }
    cp_async_wait_group<0>();  // no copy is left behind
    __syncthreads();  // so that no thread writes o over q before all of q is there: there may be no keys
    // The tile is computed anew: its numbers would take registers that the loop needs.
    unsigned block = blockIdx.x;
    asm volatile("" : "+r"(block));
    const QueryTile tile = query_tile<BLOCK_Q>(problem, block);
    const unsigned o_lane = at(row + g, 0) * 16 + t * 4;  // bytes from q_smem to the first pair of this lane
#pragma unroll
    for (int w = 0; w < 2 * TILES; w++) {
        const int i = row + g + 8 * w;
        const float sum = row_sum(sum_reg[w]);
        const float inverse = sum == 0.0f ? 0.0f : dropout_of(problem).scale / sum;
        for (int n = 0; n < VECTORS; n++) {
            const float* pair = &o_reg[n][w / 2][w % 2 * 2];
            char* target = reinterpret_cast<char*>(q_smem) + behind(o_lane, 0, n) + 8 * w * ROW;
            *reinterpret_cast<unsigned*>(target) = Half::round_pair(pair[0] * inverse, pair[1] * inverse);
        }
        if (tile.first + i < tile.end && t == 0 && lse != nullptr) {
            const long long matrix = static_cast<long long>(tile.batch) * problem.heads + tile.head;
            lse[matrix * problem.nq + tile.first + i] = max_reg[w] + logf(sum);  // log(0) = -inf
        }
    }
    Half* o_head = matrix_of(o, problem.o, tile.batch, tile.head);
    store_rows<16 * TILES>(o_head, problem.o.row, q_smem, row, tile.first, tile.end, columns);
}
