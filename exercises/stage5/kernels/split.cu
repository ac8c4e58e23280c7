// Attention of the newest tokens on a part of a KV cache.
//
// As decode.cu, but a block has one of `splits` parts of the keys that its query sees: x = ((b *
// H + h) * nq + i) * splits + part. It writes the attention of that part alone, divided by the
// part's own sum, and the log-sum-exp of the part. A part without a key has o = 0 and lse = -inf.
//
// Grid and block: launch() in src/split.rs.
//
// launch: grid=12 block=128
// args: f32[160]=random f32[6400]=random f32[6400]=random i32[2]={80,37} f32[480]=uninit
// args: f32[12]=uninit
// args: i32=2 i32=2 i32=1 i32=80 i32=40 f32=0.158 i32=3
#include "prelude.cuh"

extern "C" __global__ void __launch_bounds__(128) split(
    const float* q,        // [B, H, nq, D] f32
    const float* k_cache,  // [B, H_kv, max_seq, D] f32
    const float* v_cache,  // [B, H_kv, max_seq, D] f32
    const int* lengths,    // [B] i32
    float* parts,          // [B, H, nq, splits, D] f32
    float* parts_lse,      // [B, H, nq, splits] f32
    int heads,             // H
    int group,             // H / H_kv
    int nq, int max_seq,
    int head_dim,          // D, 1 to 256
    float scale,
    int splits
) {
    // TODO, task split.
}
