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
    // TODO, task 4/flash, in four steps. Each is graded by itself.
    // tile:   nq = nk = 32, HEAD_DIM 64 or 128, no mask. Which batch and head, and which queries,
    //         are this block's? Load q, k, v to shared memory; barrier; scores, softmax, o, lse.
    // online: many whole tiles of keys. Scale l and o down when m grows; barrier before the next.
    // ragged: any nq, nk and HEAD_DIM. Rows and keys beyond the end do not exist; lse may be null.
    // causal: the mask. Skip the tiles of keys that no query of the block sees.
}
