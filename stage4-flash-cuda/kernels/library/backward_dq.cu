// The gradient by q with every option: masks, window, key lengths, strides, grouped heads, any head
// dimension.
//
// Idea: as in backward/1_recompute_dq.cu. A block owns a tile of queries, and the keys pass by.
// mask.cuh tells which tiles of keys are skipped, and which scores of a mixed tile are hidden:
//
//     p = exp(scale * q . k + mask - lse)    dp = dO . v    ds = p * (dp - delta)
//     dq = scale * sum over j of ds k
//
// With dropout, dp is times its factor. A hidden score has ds = 0, whatever q . k and dO . v are.
//
// Grid:   x = ceil(nq / BLOCK_Q) * B * H.
// Block:  (THREADS). gradients.cuh says which queries and keys of a tile a thread has.
// Shared: ((BLOCK_Q + BLOCK_KV) * 2 * STRIDE + BLOCK_Q * (BLOCK_KV | TX)) * 4 bytes, dynamic:
//         gradients.cuh has STRIDE and TX.
// Reads:  q, dO, lse and delta once; k and v once per block. Writes: dq once; zeros for a query
//         that sees no key.
// Constants: as those of backward_dk_dv.cu.
//
// launch: grid=4 block=128 shared=90112
// define: HEAD_DIM=64 BLOCK_Q=64 BLOCK_KV=64 THREADS=128
// args: f32[12800]=random f32[16640]=random f32[16640]=random f32[12800]=random
// args: f32[200]=ones f32[200]=random f32[12800]=uninit null null null
// args: {{i64=12800,6400,64}, {i64=16640,8320,64}, {i64=16640,8320,64}, {i64=12800,6400,64},
// args:  {i64=0,0,0}, {i64=0,0,0}, i32=2,1, 100,130, 64, -100,30, f32=0.125}
#include "gradients.cuh"

constexpr int ROWS = BLOCK_Q / TY;      // queries of a thread
constexpr int COLUMNS = BLOCK_KV / TX;  // keys of a thread

extern "C" __global__ void __launch_bounds__(THREADS, 2) backward_dq(
    const ELEMENT* q,          // [B, H, nq, D] f32, f16 or bf16
    const ELEMENT* k,          // [B, H / group, nk, D] f32, f16 or bf16
    const ELEMENT* v,          // [B, H / group, nk, D] f32, f16 or bf16
    const ELEMENT* d_o,        // [B, H, nq, D] f32, f16 or bf16, with the strides of o
    const float* lse,          // [B, H, nq] f32, packed
    const float* delta,        // [B, H, nq] f32, packed
    ELEMENT* dq,               // [B, H, nq, D] f32, f16 or bf16, with the strides of q
    const float* mask,         // [B, H, nq, nk] f32, or null
    const int* key_lengths,    // [B] i32, or null
    const unsigned* blocks,    // [B, H, ceil(nq / 64), words] u32, or null
    Problem problem
) {
    extern __shared__ __align__(16) float smem[];
    float* q_smem = smem;                               // [query][column]; at the end, dq
    float* d_o_smem = q_smem + BLOCK_Q * STRIDE;        // [query][column]
    float* k_smem = d_o_smem + BLOCK_Q * STRIDE;        // [key][column]
    float* v_smem = k_smem + BLOCK_KV * STRIDE;         // [key][column]
    float* weights_smem = v_smem + BLOCK_KV * STRIDE;   // [query][key]: ds

    const QueryTile queries = query_tile<BLOCK_Q>(problem, blockIdx.x);
    const int first = queries.first;
    const int end = queries.end;
    const int kv_head = queries.head / problem.group;
    const int columns = problem.head_dim;  // D
    const Mask masks(mask, key_lengths, blocks, problem, queries.batch, queries.head);
    const ELEMENT* k_head = matrix_of(k, problem.k, queries.batch, kv_head);
    const ELEMENT* v_head = matrix_of(v, problem.v, queries.batch, kv_head);
    load_rows<BLOCK_Q, STRIDE>(q_smem, matrix_of(q, problem.q, queries.batch, queries.head), problem.q.row, first, end, columns);
    load_rows<BLOCK_Q, STRIDE>(d_o_smem, matrix_of(d_o, problem.o, queries.batch, queries.head), problem.o.row, first, end, columns);
    const long long rows = (static_cast<long long>(queries.batch) * problem.heads + queries.head) * problem.nq;  // before this head's
    float lse_reg[ROWS];
    float delta_reg[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const int i = min(first + ty() + TY * r, end - 1);  // rows behind the last are not stored
        lse_reg[r] = finite_or_positive(lse[rows + i]);
        delta_reg[r] = delta[rows + i];
    }

    Vector<4> dq_reg[ROWS][PIECES] = {};
    const int key_end = masks.end_of(end);
#pragma unroll 1
    for (int key = masks.begin_of(first) / BLOCK_KV * BLOCK_KV; key < key_end; key += BLOCK_KV) {
        const Tile tile = masks.tile(first, end, key, key + BLOCK_KV);
        if (tile == Tile::Masked) {
            continue;  // the whole block agrees, so no thread waits at a barrier in vain
        }
        load_rows<BLOCK_KV, STRIDE>(k_smem, k_head, problem.k.row, key, masks.keys, columns);
        load_rows<BLOCK_KV, STRIDE>(v_smem, v_head, problem.v.row, key, masks.keys, columns);
        __syncthreads();  // so that no thread reads a row before every thread has stored its part
        // ANCHOR: gradients
        float s_reg[ROWS][COLUMNS];
        multiply(s_reg, q_smem, k_smem);
        float unit = problem.scale;  // of the scores
        if (tile == Tile::Mixed) {
            mask_scores(s_reg, weights_smem, [&](float s, int query, int x) {
                return masks.masked(s * problem.scale, first + query, key + x);
            });
            unit = 1.0f;
        }
        float dp_reg[ROWS][COLUMNS];
        multiply(dp_reg, d_o_smem, v_smem);
        const Dropout dropout = dropout_of(problem);
        const unsigned long long kept = kept_scores_of<ROWS, COLUMNS>([&](int query, int x) {
            return is_kept(dropout, number_of(problem, queries.batch, queries.head), first + query, key + x);
        });
        float* own_weights = weights_smem + ty() * WEIGHTS_STRIDE<BLOCK_KV> + tx();
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
#pragma unroll
            for (int n = 0; n < COLUMNS; n++) {
                const float p = weight(s_reg[r][n], unit, lse_reg[r]);
                const float dp = kept >> (r * COLUMNS + n) & 1 ? dp_reg[r][n] * dropout.scale : 0.0f;
                own_weights[TY * r * WEIGHTS_STRIDE<BLOCK_KV> + TX * n] = score_gradient(p, dp, delta_reg[r]);
            }
        }
        __syncwarp();  // so that no lane reads a row of ds before the lanes that share it have stored their parts
        accumulate<BLOCK_KV>(dq_reg, weights_smem, k_smem);
        // ANCHOR_END: gradients
        __syncthreads();  // so that no thread loads the next keys while another still reads these
    }
    __syncthreads();  // so that no thread stores dq over q while another still loads q: there may be no keys
    store(matrix_of(dq, problem.q, queries.batch, queries.head), problem.q.row, dq_reg, problem.scale, q_smem, first, end, columns);
}
