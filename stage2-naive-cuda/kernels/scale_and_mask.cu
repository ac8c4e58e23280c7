// Scale and mask, in place: scores = scale * scores, and -inf where a key is hidden from a query.
//
// Idea: one block per row of scores. Its threads stride along the row, and read and write each
// element once. The causal mask is aligned to the bottom right: the queries are the last nq of nk
// tokens, so query i sees the keys up to i + nk - nq. With nq > nk the first queries see no key.
//
// Grid:   x = batch * nq blocks, one per row.
// Block:  (128).
// Shared: none.
// Reads:  scores. Writes: scores.
// What limits it now: device memory. A score crosses it twice for one multiplication; stage 4
// merges this step with its neighbours.
//
// launch: grid=100 block=128
// args: f32[7000]=random i32=50 i32=70 f32=0.125 i32=1

#include "prelude.cuh"

constexpr int THREADS = 128;

// ANCHOR: kernel
extern "C" __global__ void __launch_bounds__(THREADS) scale_and_mask(
    float* scores,  // [batch, nq, nk] f32
    int nq, int nk,
    float scale,
    int causal      // 0 or 1
) {
    const int i = blockIdx.x % nq;
    const int seen = causal ? i + 1 + nk - nq : nk;  // keys that this query sees; may be negative

    float* row = scores + (long long)blockIdx.x * nk;
    for (int j = threadIdx.x; j < nk; j += THREADS) {
        // ANCHOR: load
        const float score = row[j] * scale;
        // ANCHOR_END: load
        // ANCHOR: write
        row[j] = j < seen ? score : -INFINITY;
        // ANCHOR_END: write
    }
}
// ANCHOR_END: kernel
