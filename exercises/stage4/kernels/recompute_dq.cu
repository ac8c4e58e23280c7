// The gradient by q: a block owns a tile of queries, and the keys pass by.
//
// Idea: as in recompute_dk_dv.cu, with the sides exchanged. For a query i and a key j:
//
//     p = exp(scale * q . k - lse)        dp = dO . v        ds = p * (dp - delta)
//     dq = scale * sum over j of ds k
//
// p and dp are computed once more: an addition to dq from every block of keys would be atomic, and
// its last bits would depend on the order of the blocks.
//
// Constants: HEAD_DIM, 16, 64 or 128; from queries() in src/backward.rs BLOCK_Q, BLOCK_KV, THREADS.
//         Grid and bytes of dynamic shared memory: also from there.
// Block:  (THREADS). tile.cuh, which is done, says which queries and keys of a tile a thread has.
// Query i sees key j if j < nk and, with the causal mask, j <= i + (nk - nq). A query that sees no
// key has lse = -inf and dq = 0.
//
// `cargo gpu check exercises/stage4/kernels/recompute_dq.cu` looks for races and bad
// accesses in this launch:
// launch: grid=4 block=128 shared=90112
// define: HEAD_DIM=64 BLOCK_Q=64 BLOCK_KV=64 THREADS=128
// args: f32[12800]=random f32[16640]=random f32[16640]=random f32[12800]=random
// args: f32[200]=ones f32[200]=random f32[12800]=uninit
// args: i32=100 i32=130 f32=0.125 i32=1
#include "prelude.cuh"

#include "tile.cuh"

extern "C" __global__ void __launch_bounds__(THREADS) recompute_dq(
    const Vector* q,      // [B, H, nq, D] f32
    const Vector* k,      // [B, H, nk, D] f32
    const Vector* v,      // [B, H, nk, D] f32
    const Vector* d_o,    // [B, H, nq, D] f32
    const float* lse,     // [B, H, nq] f32
    const float* delta,   // [B, H, nq] f32
    Vector* dq,           // [B, H, nq, D] f32
    int nq, int nk, float scale, int causal
) {
    // TODO, task 4/backward.
    // 1. Which batch and head, and which queries, are this block's? Load q, dO, lse and delta.
    // 2. For each tile of keys that one of the queries sees: load k and v; barrier; ds, a row of
    //    the tile for each query; dq += ds k; barrier.
    // 3. Store dq, times scale.
}
