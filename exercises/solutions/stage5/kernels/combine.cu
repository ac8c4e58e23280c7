// Merges the parts of split.cu by their log-sum-exp.
//
// Idea: part s has o_s and lse_s = log(sum of exp(score)). Its share of the whole softmax is exp(lse_s - lse), so
// o = sum of exp(lse_s - lse) o_s, where lse = log(sum of exp(lse_s)).
//
// Grid:   x = B * H * nq.
// Block:  (128). Every thread computes the weights again: they are few. A thread owns every 128th column.
// Shared: none.
// Reads:  parts, parts_lse. Writes: o, lse. A query that sees no key gets o = 0, lse = -inf.
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
    const long long row = blockIdx.x;
    parts += row * splits * head_dim;
    parts_lse += row * splits;
    float max = -INFINITY;
    for (int s = 0; s < splits; s++) max = fmaxf(max, parts_lse[s]);
    const float shift = max == -INFINITY ? 0.0f : max;  // exp(-inf - -inf) would be NaN
    float sum = 0.0f;
    for (int s = 0; s < splits; s++) sum += __expf(parts_lse[s] - shift);
    const float inverse = sum == 0.0f ? 0.0f : 1.0f / sum;
    for (int d = threadIdx.x; d < head_dim; d += 128) {
        float x = 0.0f;
        for (int s = 0; s < splits; s++) x += __expf(parts_lse[s] - shift) * parts[s * head_dim + d];
        o[row * head_dim + d] = x * inverse;
    }
    if (threadIdx.x == 0 && lse != nullptr) lse[row] = max + logf(sum);  // log(0) = -inf
}
