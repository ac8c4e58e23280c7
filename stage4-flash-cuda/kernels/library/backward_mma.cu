// The gradients in half precision, on tensor cores, with every option: masks, window, key lengths,
// strides, grouped heads, any head dimension.
//
// Idea: as in backward/2_mma_dk_dv.cu. Two warps share keys, and each has one gradient; the queries
// of all heads that share the keys pass by, so a block sums over the group in one order. mask.cuh
// tells which tiles of queries are skipped, and which scores of a mixed tile are hidden:
//
//     warp 0:  p^T = exp(scale * k q^T + mask - lse)     dv += p^T dO
//     warp 1:  ds^T = p^T * (v dO^T - delta)             dk += ds^T q
//     all:     sums of dq / scale += ds k
//
// p^T goes from one to the other, rounded, as the fragments that lanes hold: warp 1 waits for it,
// and warp 0 does not wait. Then ds^T takes its place, for all warps. Blocks take turns at the sums
// of dq, from the last queries on, as in backward.cu. With dropout, dp is times its factor, and so
// is p in dv; the sign of p tells warp 1 that it is dropped. A hidden score has p = ds = 0, no
// matter what q . k and dO . v are.
//
// Grid:   x = ceil(nk / BLOCK_KV) * B * H / group.
// Block:  (THREADS). Warps 2 w and 2 w + 1 have the keys of pair w. half_scores.cuh says which rows
//         and columns a lane has.
// Shared: (BLOCK_KV + BLOCK_Q) * 2 * STRIDE * 16 + BLOCK_KV * BLOCK_Q * 2 + BLOCK_Q * 12 bytes,
//         dynamic: half_rows.cuh has STRIDE. 12 bytes more.
// Reads:  k and v once; q, dO, lse and delta once per block of the keys, and the sums of dq.
// Writes: dk, dv once; zeros for a key that no query sees. The sums once per block of the keys.
// Constants: BLOCK_Q, BLOCK_KV, THREADS; HEAD_DIM, which is D, or more: columns from D on are zeros
// in shared memory, and change no sum; ELEMENT, of all tensors but mask, lse, delta, sums: f16 or
// bf16; DROPOUT, 1 to drop weights: see dropout.cuh.
//
// arch: compute_80
// launch: grid=4 block=128 shared=49536
// define: HEAD_DIM=64 BLOCK_Q=32 BLOCK_KV=128 THREADS=128 ELEMENT=f16
// args: f16[12800]=random f16[16640]=random f16[16640]=random f16[12800]=random
// args: f32[200]=ones f32[200]=random f16[16640]=uninit f16[16640]=uninit f32[14400]=zeros
// args: i32[9]=zeros null null null
// args: {{i64=12800,6400,64}, {i64=16640,8320,64}, {i64=16640,8320,64}, {i64=12800,6400,64},
// args:  {i64=0,0,0}, {i64=0,0,0}, i32=2,1, 100,130, 64, -100,30, f32=0.125}
#include "half_sums.cuh"
#include "turns.cuh"

constexpr int N = BLOCK_Q / 8;                // tiles of 8 queries
// The first rows of tensors in shared memory.
constexpr int K_ROWS = 0;
constexpr int V_ROWS = BLOCK_KV;
constexpr int Q_ROWS = 2 * BLOCK_KV;
constexpr int D_O_ROWS = Q_ROWS + BLOCK_Q;
constexpr int END_ROWS = D_O_ROWS + BLOCK_Q;
constexpr int SCORES = BLOCK_Q / 2 * TILES;   // of a lane
constexpr int STEPS = HEAD_DIM > 64 ? 2 : 4;
static_assert(TILES * PAIRS * 16 == BLOCK_KV && BLOCK_Q % 16 == 0, "whole tiles");
static_assert(Mask::BLOCK % BLOCK_Q == 0 && Mask::BLOCK % (16 * TILES) == 0, "squares of whole tiles");

// Two neighbouring columns, which a lane has.
struct alignas(8) Pair {
    float x[2];
};

// Numbers of the queries of a tile.
struct Numbers {
    Pair lse[BLOCK_Q / 2];
    Pair powers[BLOCK_Q / 2];  // of 2, that weights times UNIT are to be divided by
    Pair delta[BLOCK_Q / 2];
};

// Arrives at barrier `number` without waiting.
__device__ __forceinline__ void bar_arrive(int number, int threads) {
    asm volatile("bar.arrive %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

// Waits until so many threads have come to barrier `number`.
__device__ __forceinline__ void bar_sync(int number, int threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

// The bits of p of score [n][e / 4][e % 4] of a lane.
__device__ __forceinline__ unsigned bits_of(const Fragments& p_smem, int lane, int n, int e) {
    return p_smem[n / 2][e / 4][lane].x[n % 2 * 2 + e / 2 % 2] >> e % 2 * 16 & 0xffffu;
}

extern "C" __global__ void __launch_bounds__(THREADS, 2) backward_mma(
    const Half* q,             // [B, H, nq, D] f16 or bf16
    const Half* k,             // [B, H / group, nk, D] f16 or bf16
    const Half* v,             // [B, H / group, nk, D] f16 or bf16
    const Half* d_o,           // [B, H, nq, D] f16 or bf16, with the strides of o
    const float* lse,          // [B, H, nq] f32, packed
    const float* delta,        // [B, H, nq] f32, packed
    Half* dk,                  // [B, H / group, nk, D] f16 or bf16, with the strides of k
    Half* dv,                  // [B, H / group, nk, D] f16 or bf16, with the strides of v
    float* sums,               // [B, H, nq, ROW_OF_SUMS] f32: of dq / scale, zeros at first
    Turns turns,               // zeros at first
    const float* mask,         // [B, H, nq, nk] f32, or null
    const int* key_lengths,    // [B] i32, or null
    const unsigned* blocks,    // [B, H, ceil(nq / 64), words] u32, or null
    Problem problem
) {
    extern __shared__ __align__(128) Vector rows_smem[];
    const int tiles = (problem.nk + BLOCK_KV - 1) / BLOCK_KV;
    const int kv_heads = problem.heads / problem.group;
    const int q_tiles = (problem.nq + BLOCK_Q - 1) / BLOCK_Q;
    const int number = turns.number_of_block();
    const int matrix = number / tiles;
    int batch = matrix / kv_heads;
    const int kv_head = matrix % kv_heads;
    const int first = number % tiles * BLOCK_KV;   // first key of the tile
    const int columns = problem.head_dim;          // D
    const int own_head = kv_head * problem.group;  // first head of the group
    const int own = threadIdx.x / 32 % 2;          // 0: k, q, dO and dv; 1: v, dO, q and dk
    const int row = threadIdx.x / 64 * 16 * TILES; // first key of the pair of warps, in the tile
    Fragments* fragments_smem = reinterpret_cast<Fragments*>(rows_smem + END_ROWS * STRIDE);  // of each pair
    Fragments& p_smem = fragments_smem[threadIdx.x / 64];
    __shared__ int exponents[PAIRS];               // of ds of a pair; HIDDEN if it has none
    Numbers& numbers = *reinterpret_cast<Numbers*>(rows_smem + END_ROWS * STRIDE + BLOCK_KV * BLOCK_Q / 8);
    const int keys = Mask(mask, key_lengths, blocks, problem, batch, own_head).keys;
    const Half* k_head = matrix_of(k, problem.k, batch, kv_head);
    const Half* v_head = matrix_of(v, problem.v, batch, kv_head);
    const Half* q_head = matrix_of(q, problem.q, batch, own_head);
    const Half* d_o_head = matrix_of(d_o, problem.o, batch, own_head);
    const bool aligned = is_aligned(k_head, problem.k.row, columns) && is_aligned(v_head, problem.v.row, columns) &&
                         is_aligned(q_head, problem.q.row, columns) && is_aligned(d_o_head, problem.o.row, columns) &&
                         (problem.group == 1 || (problem.q.head % 8 == 0 && problem.o.head % 8 == 0));
    {
        const Rows rows(rows_smem, columns, aligned, threadIdx.x);
        rows.clear(END_ROWS);
        rows.copy<K_ROWS, BLOCK_KV>(k_head, problem.k.row, first, keys);
        rows.copy<V_ROWS, BLOCK_KV>(v_head, problem.v.row, first, keys);
    }
    float sum_reg[VECTORS][TILES][4] = {};  // of dv times UNIT; of dk times UNIT, as multiples of 2^-exponent
    int exponent = FIRST_EXPONENT;
    // The queries that may see keys of the tile: none, behind the end of a sequence.
    const int begin = max(0, first - problem.last_diagonal) / BLOCK_Q * BLOCK_Q;
    const int end = min(problem.nq, min(first + BLOCK_KV, keys) - problem.first_diagonal);
    const int last = first < keys && begin < end ? (end - 1) / BLOCK_Q * BLOCK_Q : -1;
#pragma unroll 1
    for (int head = own_head; head < own_head + problem.group; head++) {
#pragma unroll 1
        for (int query = last; query >= begin; query -= BLOCK_Q) {
            const Mask masks(mask, key_lengths, blocks, problem, batch, head);
            const int query_end = min(query + BLOCK_Q, problem.nq);
            // The blocks of all keys from the first that these queries may see take turns.
            const auto sum_tile = [&] { return number_of(problem, batch, head) * q_tiles + query / BLOCK_Q; };
            const auto turn = [&] { return first / BLOCK_KV - max(0, query + problem.first_diagonal) / BLOCK_KV; };
            // Only the block mask masks tiles between begin and end.
            if (masks.blocks != nullptr && masks.tile(query, query_end, first, first + BLOCK_KV) == Tile::Masked) {
                if (threadIdx.x == 0) {
                    turns.wait(sum_tile(), turn());
                    turns.pass(sum_tile(), turn());
                }
                continue;  // the whole block agrees, so no thread waits at a barrier in vain
            }
            const unsigned thread = thread_anew();
            const Rows rows(rows_smem, problem.head_dim, aligned, thread);
            rows.copy<Q_ROWS, BLOCK_Q>(matrix_of(q, problem.q, batch, head), problem.q.row, query, query_end);
            rows.copy<D_O_ROWS, BLOCK_Q>(matrix_of(d_o, problem.o, batch, head), problem.o.row, query, query_end);
            bool far = false;  // some score may be FAR from 0
            for (int x = thread; x < BLOCK_Q; x += THREADS) {
                const long long i = number_of(problem, batch, head) * problem.nq + query + x;
                const bool exists = query + x < query_end;
                const float row_lse = exists ? finite_or_positive(lse[i]) : INFINITY;
                far |= FAR < fabsf(row_lse) && row_lse < INFINITY;
                numbers.lse[x / 2].x[x % 2] = row_lse;
                numbers.powers[x / 2].x[x % 2] = fmaf(-LOG2_E, row_lse, UNIT_LOG2);
                numbers.delta[x / 2].x[x % 2] = exists ? delta[i] : 0.0f;
            }
            cp_async_wait_group<0>();
            far = __syncthreads_or(far);  // so that no thread reads a row before every thread's part of it is there
            // ANCHOR: gradients
            // As the pair's own keys are seen.
            const Tile tile = masks.tile(query, query_end, first + row, first + row + 16 * TILES);
            if (tile != Tile::Masked) {
                float s_reg[N][TILES][4] = {};  // k q^T, or v dO^T
                multiply<STEPS>(
                    s_reg, a_lane(rows_smem, (own == 0 ? K_ROWS : V_ROWS) + row, lane_anew()),
                    bt_lane(rows_smem, own == 0 ? Q_ROWS : D_O_ROWS, lane_anew())
                );
                const unsigned lane = lane_anew();
                const unsigned t = lane % 4;
                unsigned weight_reg[BLOCK_Q / 16][TILES][4];  // p^T, or ds^T
                if (own == 0) {
                    if (tile == Tile::Mixed || far) {
                        // Opaque: else the compiler keeps the addresses of masks in registers.
                        asm volatile("" : "+r"(batch), "+r"(head));
                        const Mask again(mask, key_lengths, blocks, problem, batch, head);
                        mask_scores<RowsAre::Keys>(s_reg, again, problem.scale, query, first + row);
#pragma unroll
                        for (int n = 0; n < N; n++) {
                            const Pair row_lse = numbers.lse[4 * n + t];
                            for (int e = 0; e < 4 * TILES; e++) {
                                float& s = s_reg[n][e / 4][e % 4];
                                s = ex2_approx_ftz_f32(fmaf(s - row_lse.x[e % 2], LOG2_E, UNIT_LOG2));
                            }
                        }
                    } else {
                        const float factor = problem.scale * LOG2_E;
#pragma unroll
                        for (int n = 0; n < N; n++) {
                            const Pair power = numbers.powers[4 * n + t];
                            for (int e = 0; e < 4 * TILES; e++) {
                                float& s = s_reg[n][e / 4][e % 4];
                                s = ex2_approx_ftz_f32(fmaf(factor, s, power.x[e % 2]));
                            }
                        }
                    }
                    if constexpr (DROPOUT) {
                        const unsigned long long kept = kept_of_keys<N, TILES>(problem, batch, head, query, first + row);
#pragma unroll
                        for (int e = 0; e < SCORES; e++) {
                            float& p = s_reg[e / 4 / TILES][e / 4 % TILES][e % 4];
                            p = kept >> e & 1 ? p : -p;
                        }
                    }
#pragma unroll
                    for (int j = 0; j < BLOCK_Q / 16; j++) {
                        round_columns(weight_reg[j], s_reg, 2 * j);
                        for (int m = 0; m < TILES; m++) {
                            p_smem[j][m][lane] = reinterpret_cast<Vector&>(weight_reg[j][m]);
                            for (int e = 0; DROPOUT && e < 4; e++) {
                                weight_reg[j][m][e] &= ~((weight_reg[j][m][e] >> 15 & 0x00010001u) * 0xffffu);  // dropped
                            }
                        }
                    }
                    bar_arrive(1 + row / (16 * TILES), 64);
                } else {
                    // So that no lane reads p before the other warp's lane has stored it.
                    bar_sync(1 + row / (16 * TILES), 64);
                    const float unit = power_of_2(exponent);
                    const float factor = unit * dropout_of(problem).scale;
#pragma unroll
                    for (int n = 0; n < N; n++) {
                        const Pair row_delta = numbers.delta[4 * n + t];
                        for (int e = 0; e < 4 * TILES; e++) {
                            float& s = s_reg[n][e / 4][e % 4];
                            if constexpr (DROPOUT) {
                                s = bits_of(p_smem, lane, n, e) >> 15 ? 0.0f : s;
                            }
                            s = fmaf(factor, s, -unit * row_delta.x[e % 2]);
                        }
                    }
                    if (tile == Tile::Mixed) {
#pragma unroll
                        for (int e = 0; e < SCORES; e++) {
                            float& s = s_reg[e / 4 / TILES][e / 4 % TILES][e % 4];
                            s = (bits_of(p_smem, lane, e / 4 / TILES, e % (4 * TILES)) & 0x7fffu) == 0 ? 0.0f : s;
                        }
                    }
                    fit_exponent(exponent, s_reg, sum_reg);
#pragma unroll
                    for (int j = 0; j < BLOCK_Q / 16; j++) {
                        for (int m = 0; m < TILES; m++) {
                            const Vector p = p_smem[j][m][lane];
                            for (int e = 0; e < 4; e++) {
                                const float* pair = &s_reg[2 * j + e / 2][m][e % 2 * 2];
                                const unsigned weights = DROPOUT ? p.x[e] & 0x7fff7fffu : p.x[e];
                                weight_reg[j][m][e] = weighted_pair(weights, pair[0], pair[1]);
                            }
                            __syncwarp();  // so that no lane stores ds where another still reads p
                            store_rows_of_tiles(p_smem[j][m], weight_reg[j][m], lane);
                        }
                    }
                }
                const unsigned second_lane = a_lane(rows_smem, own == 0 ? D_O_ROWS : Q_ROWS, lane_anew());
#pragma unroll
                for (int j = 0; j < BLOCK_Q / 16; j++) {
                    accumulate(sum_reg, weight_reg[j], second_lane, 16 * j);
                }
            }
            if (thread_anew() % 64 == 32) {
                exponents[thread_anew() / 64] = tile == Tile::Masked ? HIDDEN : exponent;
            }
            if (thread_anew() == 0) {
                turns.wait(sum_tile(), turn());
            }
            __syncthreads();  // so that no thread reads ds before all are there, or adds before the block's turn
            add_products(
                sums + (number_of(problem, batch, head) * problem.nq + query) * ROW_OF_SUMS, fragments_smem, exponents,
                a_lane(rows_smem, K_ROWS, lane_anew()), query_end - query
            );
            // ANCHOR_END: gradients
            __syncthreads();  // so that no other block has its turn before every thread has added
            if (thread_anew() == 0) {
                turns.pass(sum_tile(), turn());
            }
        }
    }
    cp_async_wait_group<0>();
    __syncthreads();  // so that no thread stores a gradient over k or v before all of it is there: there may be no queries
    const int key_end = min(first + BLOCK_KV, problem.nk);
    Half* gradient = own == 0 ? matrix_of(dv, problem.v, batch, kv_head) : matrix_of(dk, problem.k, batch, kv_head);
    const float factor = own == 0 ? dropout_of(problem).scale / UNIT : problem.scale / UNIT * power_of_2(-exponent);
    store_sums(
        gradient, own == 0 ? problem.v.row : problem.k.row, rows_smem + (own == 0 ? K_ROWS : V_ROWS) * STRIDE, sum_reg, factor,
        row, first, key_end, columns
    );
}
