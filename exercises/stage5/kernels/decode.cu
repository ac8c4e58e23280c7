// Attention of the newest tokens on a KV cache.
//
// The nq queries of a sequence are its last tokens: query i is token lengths[b] - nq + i, and sees
// itself and all tokens before it. In a decoding step nq is 1. `group` heads of q share one head of
// the cache: head h reads head h / group. A query that sees no key has o = 0 and lse = -inf.
//
// A key and a value are read once, used once and forgotten, so the kernel is as fast as it reads.
// Let neighbouring lanes read neighbouring elements.
//
// Grid and block: launch() in src/decode.rs.
//
// `cargo gpu check exercises/stage5/kernels/decode.cu` looks for races and bad
// accesses in this launch:
// launch: grid=4 block=128
// args: f32[160]=random f32[6400]=random f32[6400]=random i32[2]={80,37} f32[160]=uninit
// args: f32[4]=uninit
// args: i32=2 i32=2 i32=1 i32=80 i32=40 f32=0.158
#include "prelude.cuh"

extern "C" __global__ void __launch_bounds__(128) decode(
    const float* q,        // [B, H, nq, D] f32
    const float* k_cache,  // [B, H_kv, max_seq, D] f32
    const float* v_cache,  // [B, H_kv, max_seq, D] f32
    const int* lengths,    // [B] i32
    float* o,              // [B, H, nq, D] f32
    float* lse,            // [B, H, nq] f32, or null
    int heads,             // H
    int group,             // H / H_kv
    int nq, int max_seq,
    int head_dim,          // D, 1 to 256
    float scale
) {
    // TODO, task decode, in three steps. Each is graded by itself.
    // query:   nq = 1, group = 1, and a query sees max_seq keys. Which batch and head are this
    //          block's? For each tile of keys: scores; softmax online; o. At the end o / sum; lse.
    // lengths: a sequence has lengths[b] keys, or none; other slots hold NaN. lse may be null.
    // groups:  which query is this block's, too? How many keys does it see, of which head?
}
