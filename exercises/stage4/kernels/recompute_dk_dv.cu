// The gradients by k and v: a block owns a tile of keys, and the queries pass by.
//
// Idea: the forward pass kept no scores, but lse. Each tile of weights p is computed again, without
// a maximum and a sum, because lse has both. For a query i and a key j, with delta given:
//
//     p = exp(scale * q . k - lse)        dp = dO . v        ds = p * (dp - delta)
//     dv = sum over i of p dO             dk = scale * sum over i of ds q
//
// [Dao 2023, FlashAttention-2, algorithm 2.] One block sums a gradient, in one order, so it has the
// same bits in every run. No score is ever in global memory.
//
// Constants: HEAD_DIM, 16, 64 or 128; from keys_and_values() in src/backward.rs BLOCK_Q, BLOCK_KV,
//         THREADS. Grid and bytes of dynamic shared memory: also from there.
// Block:  (THREADS). tile.cuh, which is done, says which keys and queries of a tile a thread has.
// Query i sees key j if j < nk and, with the causal mask, j <= i + (nk - nq). The lse of a query
// that sees no key is -inf. A key that no query sees has dk = dv = 0.
//
// `cargo gpu check exercises/stage4/kernels/recompute_dk_dv.cu` looks for races and bad
// accesses in this launch:
// launch: grid=6 block=128 shared=90624
// define: HEAD_DIM=64 BLOCK_Q=64 BLOCK_KV=64 THREADS=128
// args: f32[12800]=random f32[16640]=random f32[16640]=random f32[12800]=random
// args: f32[200]=ones f32[200]=random f32[16640]=uninit f32[16640]=uninit
// args: i32=100 i32=130 f32=0.125 i32=1
#include "prelude.cuh"

#include "tile.cuh"

extern "C" __global__ void __launch_bounds__(THREADS) recompute_dk_dv(
    const Vector* q,      // [B, H, nq, D] f32
    const Vector* k,      // [B, H, nk, D] f32
    const Vector* v,      // [B, H, nk, D] f32
    const Vector* d_o,    // [B, H, nq, D] f32
    const float* lse,     // [B, H, nq] f32
    const float* delta,   // [B, H, nq] f32
    Vector* dk,           // [B, H, nk, D] f32
    Vector* dv,           // [B, H, nk, D] f32
    int nq, int nk, float scale, int causal
) {
    // TODO, task 4/backward.
    // 1. Which batch and head, and which keys, are this block's? Load their k and v.
    // 2. For each tile of queries that see one of the keys: load q, dO, lse and delta; barrier;
    //    p and ds, a row of the tile for each key; dv += p dO, dk += ds q; barrier.
    // 3. Store dk, times scale, and dv.
}
