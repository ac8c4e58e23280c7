// Scale and mask, in place: scores = scale * scores, and -inf where a key is hidden from a query.
//
// Idea: one block per row of scores. Its threads stride along the row, and read and write each
// element once. The causal mask is aligned to the bottom right: the queries are the last nq of nk
// tokens, so query i sees the keys j <= i + nk - nq. With nq > nk the first queries see no key.
//
// Grid:   x = batch * nq blocks, one per row.
// Block:  (128).
// Shared: none.
// Reads:  scores. Writes: scores.
//
// launch: grid=100 block=128
// args: f32[7000]=random i32=50 i32=70 f32=0.125 i32=1

#include "prelude.cuh"

constexpr int THREADS = 128;

extern "C" __global__ void __launch_bounds__(THREADS) scale_and_mask(
    float* scores,  // [batch, nq, nk] f32
    int nq, int nk,
    float scale,
    int causal      // 0 or 1
) {
    // TODO, task attention.
}
