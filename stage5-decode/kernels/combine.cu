// Merges the parts of 2_split.cu or 3_grouped.cu by their log-sum-exp.
//
// Idea: part s has o_s and lse_s = log(sum of exp(score)). Its share of the whole softmax is
// exp(lse_s - lse), so o = sum of exp(lse_s - lse) o_s, where lse = log(sum of exp(lse_s)).
//
// Grid:   x = B * H * nq.
// Block:  (128). A thread owns a part's weight, then every 128th column.
// Shared: (128 + 8) * 4 bytes, static.
// Reads:  parts, parts_lse. Writes: o, lse. A query that sees no key gets o = 0, lse = -inf.
//
// launch: grid=4 block=128
// args: f32[480]=random f32[12]=random f32[160]=uninit f32[4]=uninit i32=40 i32=3
#include "prelude.cuh"

constexpr int THREADS = 128;  // and the most parts
constexpr int WARPS = THREADS / 32;

extern "C" __global__ void __launch_bounds__(THREADS) combine(
    const float* parts,      // [B, H, nq, splits, D] f32
    const float* parts_lse,  // [B, H, nq, splits] f32
    float* o,                // [B, H, nq, D] f32
    float* lse,              // [B, H, nq] f32, or null
    int head_dim,            // D
    int splits
) {
    __shared__ float weight_smem[THREADS];
    __shared__ float max_smem[WARPS];
    __shared__ float sum_smem[WARPS];
    const int lane = threadIdx.x % 32;
    const int warp = threadIdx.x / 32;
    const long long row = blockIdx.x;
    parts += row * splits * head_dim;
    parts_lse += row * splits;

    // ANCHOR: weights
    const float part_lse = threadIdx.x < splits ? parts_lse[threadIdx.x] : -INFINITY;
    const float warp_largest = warp_max(part_lse);
    if (lane == 0) {
        max_smem[warp] = warp_largest;
    }
    __syncthreads();  // so that no thread reads the maximum of a warp before it is stored
    float max = -INFINITY;
    for (int w = 0; w < WARPS; w++) {
        max = fmaxf(max, max_smem[w]);
    }
    // exp(-inf - -inf) is NaN: where no part has a key, subtract nothing; every weight is 0.
    const float weight = __expf(part_lse - (max == -INFINITY ? 0.0f : max));
    weight_smem[threadIdx.x] = weight;
    const float warp_total = warp_sum(weight);
    if (lane == 0) {
        sum_smem[warp] = warp_total;
    }
    __syncthreads();  // so that no thread reads a weight or the sum of a warp before it is stored
    // ANCHOR_END: weights
    float sum = 0.0f;
    for (int w = 0; w < WARPS; w++) {
        sum += sum_smem[w];
    }
    const float inverse = sum == 0.0f ? 0.0f : 1.0f / sum;
    for (int d = threadIdx.x; d < head_dim; d += THREADS) {
        float x = 0.0f;
#pragma unroll 8  // eight loads in flight
        for (int s = 0; s < splits; s++) {
            x += weight_smem[s] * parts[s * head_dim + d];
        }
        o[row * head_dim + d] = x * inverse;
    }
    if (threadIdx.x == 0 && lse != nullptr) {
        lse[row] = max + logf(sum);  // log(0) = -inf
    }
}
