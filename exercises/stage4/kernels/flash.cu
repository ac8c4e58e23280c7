// FlashAttention: o = softmax(scale * q k^T) v, causal or not, in one kernel.
//
// Idea: a block keeps a tile of BLOCK_Q queries and loops over tiles of BLOCK_KV keys. The softmax
// of a row needs its maximum m and its sum l. Both are computed online, over the keys seen so far:
// when m grows, l and o are scaled down.
//
//     for each tile of keys:                      [Dao 2023, FlashAttention-2, algorithm 1]
//         s = scale * q k^T;  m' = max(m, rowmax(s));  p = exp(s - m');  c = exp(m - m')
//         l = c l + rowsum(p);  o = c o + p v;  m = m'
//     o = o / l;  lse = m + log(l)
//
// Constants: HEAD_DIM, and from tile() in src/launch.rs BLOCK_Q, BLOCK_KV, THREADS. Grid and block:
// launch() there. Query i sees key j if j < nk and, with the causal mask, j <= i + (nk - nq). A
// query that sees no key has o = 0, lse = -inf.
//
// `cargo gpu check exercises/stage4/kernels/flash.cu` looks for races and bad
// accesses in this launch:
// launch: grid=14 block=128
// define: HEAD_DIM=64 BLOCK_Q=16 BLOCK_KV=32 THREADS=128
// args: f32[12800]=random f32[16640]=random f32[16640]=random f32[12800]=uninit f32[200]=uninit
// args: i32=100 i32=130 f32=0.125 i32=1
#include "prelude.cuh"

extern "C" __global__ void __launch_bounds__(THREADS) flash(
    const float* q,                  // [B, H, nq, D] f32
    const float* k, const float* v,  // [B, H, nk, D] f32
    float* o,                        // [B, H, nq, D] f32
    float* lse,                      // [B, H, nq] f32, or null
    int nq, int nk, float scale, int causal
) {
    // TODO, task 4/flash.
    // 1. Which batch and head, and which queries, are this block's?
    // 2. Load the tile of q to shared memory. Rows from nq on do not exist: use 0.
    // 3. For each tile of keys that the queries see: load k and v; barrier;
    //    scores, softmax, o; barrier.
    // 4. Divide o by l, and write o and lse.
}
