// The gradients with every option: masks, window, key lengths, strides, grouped heads, any head
// dimension.
//
// Idea: as in backward/1_recompute_dk_dv.cu, a block owns a tile of keys, and the queries of all
// heads that share them pass by, so a block sums over the group in one order. mask.cuh tells which
// tiles of queries are skipped, and which scores of a mixed tile are hidden:
//
//     p = exp(scale * q . k + mask - lse)    dp = dO . v    ds = p * (dp - delta)
//     dv = sum over heads and i of p dO      dk = scale * sum over heads and i of ds q
//
// Having ds, the block also adds sum over its keys of ds k to the sums of dq, where a kernel of its
// own would compute p and dp again: five products instead of seven. Many blocks add to a sum, so
// they take turns: turns.cuh. The last queries come first. Under a causal mask all blocks see them,
// so they begin together, each a step behind the one before it.
//
// With dropout, dp is times its factor, and so is p in dv.
//
// A hidden score has p = ds = 0, whatever q . k and dO . v are.
//
// Grid:   x = ceil(nk / BLOCK_KV) * B * H / group.
// Block:  (THREADS). gradients.cuh says which keys and queries of a tile a thread has.
// Shared: ((BLOCK_KV + BLOCK_Q) * 2 * STRIDE + BLOCK_KV * (BLOCK_Q | TX) + 2 * BLOCK_Q) * 4 bytes,
//         dynamic: gradients.cuh has STRIDE and TX. 4 bytes more.
// Reads:  k and v once; q, dO, lse and delta once per block of the keys, and the sums of dq.
// Writes: dk, dv once; zeros for a key that no query sees. The sums once per block of the keys.
// Constants: BLOCK_Q, BLOCK_KV, THREADS; HEAD_DIM, which is D, or more: columns from D on are zeros
// in shared memory, and change no sum; ELEMENT, of all tensors but mask, lse, delta, sums: float,
// f16 or bf16; DROPOUT, 1 to drop weights: see dropout.cuh.
//
// launch: grid=6 block=128 shared=90624
// define: HEAD_DIM=64 BLOCK_Q=64 BLOCK_KV=64 THREADS=128
// args: f32[12800]=random f32[16640]=random f32[16640]=random f32[12800]=random
// args: f32[200]=ones f32[200]=random f32[16640]=uninit f32[16640]=uninit f32[12800]=zeros
// args: i32[5]=zeros null null null
// args: {{i64=12800,6400,64}, {i64=16640,8320,64}, {i64=16640,8320,64}, {i64=12800,6400,64},
// args:  {i64=0,0,0}, {i64=0,0,0}, i32=2,1, 100,130, 64, -100,30, f32=0.125}
#include "gradients.cuh"
#include "turns.cuh"

constexpr int ROWS = BLOCK_KV / TY;    // keys of a thread
constexpr int COLUMNS = BLOCK_Q / TX;  // queries of a thread

extern "C" __global__ void __launch_bounds__(THREADS, 2) backward(
    const ELEMENT* q,          // [B, H, nq, D] f32, f16 or bf16
    const ELEMENT* k,          // [B, H / group, nk, D] f32, f16 or bf16
    const ELEMENT* v,          // [B, H / group, nk, D] f32, f16 or bf16
    const ELEMENT* d_o,        // [B, H, nq, D] f32, f16 or bf16, with the strides of o
    const float* lse,          // [B, H, nq] f32, packed
    const float* delta,        // [B, H, nq] f32, packed
    ELEMENT* dk,               // [B, H / group, nk, D] f32, f16 or bf16, with the strides of k
    ELEMENT* dv,               // [B, H / group, nk, D] f32, f16 or bf16, with the strides of v
    float* sums,               // [B, H, nq, ROW_OF_SUMS] f32: of dq / scale, zeros at first
    Turns turns,               // zeros at first
    const float* mask,         // [B, H, nq, nk] f32, or null
    const int* key_lengths,    // [B] i32, or null
    const unsigned* blocks,    // [B, H, ceil(nq / 64), words] u32, or null
    Problem problem
) {
    extern __shared__ __align__(16) float smem[];
    float* k_smem = smem;                           // [key][column]; at the end, dk
    float* v_smem = k_smem + BLOCK_KV * STRIDE;     // [key][column]; at the end, dv
    float* q_smem = v_smem + BLOCK_KV * STRIDE;     // [query][column]
    float* d_o_smem = q_smem + BLOCK_Q * STRIDE;    // [query][column]
    float* weights_smem = d_o_smem + BLOCK_Q * STRIDE;  // [key][query]: p^T, then ds^T
    float* lse_smem = weights_smem + BLOCK_KV * WEIGHTS_STRIDE<BLOCK_Q>;
    float* delta_smem = lse_smem + BLOCK_Q;

    const int tiles = (problem.nk + BLOCK_KV - 1) / BLOCK_KV;
    const int kv_heads = problem.heads / problem.group;
    const int q_tiles = (problem.nq + BLOCK_Q - 1) / BLOCK_Q;
    const int number = turns.number_of_block();
    const int matrix = number / tiles;
    const int batch = matrix / kv_heads;
    const int kv_head = matrix % kv_heads;
    const int first = number % tiles * BLOCK_KV;   // first key of the tile
    const int columns = problem.head_dim;          // D
    const int own_head = kv_head * problem.group;  // first head of the group
    const int keys = Mask(mask, key_lengths, blocks, problem, batch, own_head).keys;
    load_rows<BLOCK_KV, STRIDE>(k_smem, matrix_of(k, problem.k, batch, kv_head), problem.k.row, first, keys, columns);
    load_rows<BLOCK_KV, STRIDE>(v_smem, matrix_of(v, problem.v, batch, kv_head), problem.v.row, first, keys, columns);

    Vector<4> dk_reg[ROWS][PIECES] = {};
    Vector<4> dv_reg[ROWS][PIECES] = {};
    // The queries that may see keys of the tile.
    const int begin = max(0, first - problem.last_diagonal) / BLOCK_Q * BLOCK_Q;
    const int end = min(problem.nq, min(first + BLOCK_KV, keys) - problem.first_diagonal);
    const int last = first < keys && begin < end ? (end - 1) / BLOCK_Q * BLOCK_Q : -1;
#pragma unroll 1
    for (int head = own_head; head < own_head + problem.group; head++) {
        const Mask masks(mask, key_lengths, blocks, problem, batch, head);
        const ELEMENT* q_head = matrix_of(q, problem.q, batch, head);
        const ELEMENT* d_o_head = matrix_of(d_o, problem.o, batch, head);
        const long long rows = (static_cast<long long>(batch) * problem.heads + head) * problem.nq;  // before this head's
#pragma unroll 1
        for (int query = last; query >= begin; query -= BLOCK_Q) {
            // The blocks of all keys from the first that these queries may see take turns.
            const auto sum_tile = [&] { return number_of(problem, batch, head) * q_tiles + query / BLOCK_Q; };
            const auto turn = [&] { return first / BLOCK_KV - max(0, query + problem.first_diagonal) / BLOCK_KV; };
            const int query_end = min(query + BLOCK_Q, problem.nq);
            const Tile tile = masks.tile(query, query_end, first, first + BLOCK_KV);
            if (tile == Tile::Masked) {
                if (threadIdx.x == 0) {
                    turns.wait(sum_tile(), turn());
                    turns.pass(sum_tile(), turn());
                }
                continue;  // the whole block agrees, so no thread waits at a barrier in vain
            }
            load_rows<BLOCK_Q, STRIDE>(q_smem, q_head, problem.q.row, query, query_end, columns);
            load_rows<BLOCK_Q, STRIDE>(d_o_smem, d_o_head, problem.o.row, query, query_end, columns);
            for (int x = threadIdx.x; x < BLOCK_Q; x += THREADS) {
                const bool exists = query + x < query_end;
                lse_smem[x] = finite_or_positive(exists ? lse[rows + query + x] : INFINITY);
                delta_smem[x] = exists ? delta[rows + query + x] : 0.0f;
            }
            __syncthreads();  // so that no thread reads a row before every thread has stored its part
            // ANCHOR: gradients
            float p_reg[ROWS][COLUMNS];
            multiply(p_reg, k_smem, q_smem);
            float unit = problem.scale;  // of the scores
            if (tile == Tile::Mixed) {
                mask_scores(p_reg, weights_smem, [&](float s, int key, int x) {
                    return masks.masked(s * problem.scale, query + x, first + key);
                });
                unit = 1.0f;
            }
            float ds_reg[ROWS][COLUMNS];
            multiply(ds_reg, v_smem, d_o_smem);
            const Dropout dropout = dropout_of(problem);
            const unsigned long long kept = kept_scores_of<ROWS, COLUMNS>([&](int key, int x) {
                return is_kept(dropout, number_of(problem, batch, head), query + x, first + key);
            });
            float* own_weights = weights_smem + ty() * WEIGHTS_STRIDE<BLOCK_Q> + tx();
#pragma unroll
            for (int n = 0; n < COLUMNS; n++) {
                const float row_lse = lse_smem[tx() + TX * n];
                const float row_delta = delta_smem[tx() + TX * n];
#pragma unroll
                for (int r = 0; r < ROWS; r++) {
                    const float p = weight(p_reg[r][n], unit, row_lse);
                    const bool stays = kept >> (r * COLUMNS + n) & 1;
                    ds_reg[r][n] = score_gradient(p, stays ? ds_reg[r][n] * dropout.scale : 0.0f, row_delta);
                    own_weights[TY * r * WEIGHTS_STRIDE<BLOCK_Q> + TX * n] = stays ? p : 0.0f;
                }
            }
            __syncwarp();  // so that no lane reads a row of p before the lanes that share it have stored their parts
            accumulate<BLOCK_Q>(dv_reg, weights_smem, d_o_smem);
            __syncwarp();  // so that no lane stores ds where another still reads p
#pragma unroll
            for (int e = 0; e < ROWS * COLUMNS; e++) {
                own_weights[TY * (e / COLUMNS) * WEIGHTS_STRIDE<BLOCK_Q> + TX * (e % COLUMNS)] = ds_reg[e / COLUMNS][e % COLUMNS];
            }
            __syncwarp();  // as before, of ds
            accumulate<BLOCK_Q>(dk_reg, weights_smem, q_smem);
            if (threadIdx.x == 0) {
                turns.wait(sum_tile(), turn());
            }
            __syncthreads();  // so that no thread reads ds before all are there, or adds before the block's turn
            add_products(sums + (rows + query) * ROW_OF_SUMS, weights_smem, k_smem, query_end - query);
            // ANCHOR_END: gradients
            __syncthreads();  // so that no thread loads the next queries, and no other block adds, before all have done with these
            if (threadIdx.x == 0) {
                turns.pass(sum_tile(), turn());
            }
        }
    }
    __syncthreads();  // so that no thread stores a gradient over k or v while another still loads them: there may be no queries
    const int key_end = min(first + BLOCK_KV, problem.nk);
    store(matrix_of(dk, problem.k, batch, kv_head), problem.k.row, dk_reg, problem.scale, k_smem, first, key_end, columns);
    store(matrix_of(dv, problem.v, batch, kv_head), problem.v.row, dv_reg, dropout_of(problem).scale, v_smem, first, key_end, columns);
}
