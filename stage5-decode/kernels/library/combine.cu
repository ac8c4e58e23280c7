// Merges the outputs of the parts of a sequence by their log-sum-exp.
//
// Idea: part s has o_s and lse_s = log(sum of exp(score)). Its share of the whole softmax is
// exp(lse_s - lse), so o = sum of exp(lse_s - lse) o_s, where lse = log(sum of exp(lse_s)).
//
// Grid:   x = B * H * nq.
// Block:  (128). A thread owns a part's weight, then every 128th column.
// Shared: (128 + 8) * 4 bytes, static.
// Reads:  parts, parts_lse. Writes: o, lse. A query that sees no key gets o = 0, lse = -inf.
//
// launch: grid=12 block=128
// args: f32[2880]=random f32[72]=random f32[480]=uninit f32[12]=uninit
// args: {{i64=0,0,0}, {i64=240,80,40}, {i32=3,16,40,0,0}, i32=3,1,2,6,1000,f32=1}
#include "prelude.cuh"
#include "problem.cuh"

constexpr int THREADS = 128;  // and the most parts
constexpr int WARPS = THREADS / 32;
constexpr float LOG2_E = 1.4426950408889634f;

// ANCHOR: kernel
extern "C" __global__ void __launch_bounds__(THREADS) combine(
    const float* parts,      // [B, H, nq, splits, D] f32
    const float* parts_lse,  // [B, H, nq, splits] f32
    float* o,                // [B, H, nq, D] f32
    float* lse,              // [B, H, nq] f32, packed, or null
    Problem problem
) {
    __shared__ float weight_smem[THREADS];
    __shared__ float max_smem[WARPS], sum_smem[WARPS];
    const int head_dim = problem.cache.head_dim;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const long long row = blockIdx.x;  // (b * H + h) * nq + i
    const int i = blockIdx.x % problem.nq;
    const int h = blockIdx.x / problem.nq % problem.heads;
    const int b = blockIdx.x / problem.nq / problem.heads;
    parts += row * problem.splits * head_dim;
    parts_lse += row * problem.splits;

    // ANCHOR: weights
    const float part_lse = threadIdx.x < problem.splits ? parts_lse[threadIdx.x] : -INFINITY;
    const float warp_largest = warp_max(part_lse);
    if (lane == 0) {
        max_smem[warp] = warp_largest;
    }
    __syncthreads();  // so that no thread reads the maximum of a warp before it is stored
    float max = -INFINITY;
    for (int w = 0; w < WARPS; w++) {
        max = fmaxf(max, max_smem[w]);
    }
    // exp(-inf - -inf) is NaN: where no part has seen a key, subtract
    // nothing, and every weight is 0.
    const float weight = ex2_approx_ftz_f32((part_lse - (max == -INFINITY ? 0.0f : max)) * LOG2_E);
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
    float* o_row = o + b * problem.o.batch + h * problem.o.head + i * problem.o.row;
    for (int d = threadIdx.x; d < head_dim; d += THREADS) {
        float x = 0.0f;
#pragma unroll 8  // eight loads in flight
        for (int s = 0; s < problem.splits; s++) {
            x += weight_smem[s] * parts[s * head_dim + d];
        }
        o_row[d] = x * inverse;
    }
    if (threadIdx.x == 0 && lse != nullptr) {
        lse[row] = max + logf(sum);  // log(0) = -inf
    }
}
// ANCHOR_END: kernel
