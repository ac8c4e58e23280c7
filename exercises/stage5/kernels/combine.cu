// Merges the parts of split.cu by their log-sum-exp.
//
// Part s has o_s and lse_s = log(sum of exp(score)). Its share of the whole softmax is exp(lse_s -
// lse), so o = sum of exp(lse_s - lse) o_s, where lse = log(sum of exp(lse_s)). Subtract the
// largest lse_s first, as in any softmax. A query that sees no key has o = 0 and lse = -inf.
//
// launch: grid=4 block=128
// args: f32[480]=random f32[12]=random f32[160]=uninit f32[4]=uninit i32=40 i32=3
#include "prelude.cuh"

extern "C" __global__ void __launch_bounds__(128) combine(
    const float* parts,      // [B, H, nq, splits, D] f32
    const float* parts_lse,  // [B, H, nq, splits] f32
    float* o,                // [B, H, nq, D] f32
    float* lse,              // [B, H, nq] f32, or null
    int head_dim, int splits
) {
    // TODO, task split.
}
