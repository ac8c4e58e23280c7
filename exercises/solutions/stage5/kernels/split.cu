// Attention of the newest tokens on a part of a KV cache.
//
// Idea: a warp walks keys of its own, four at a time, with its lanes along the columns, and keeps its own maximum, sum and
// output. The loop has no barrier. At the end the warps of the block merge. Where D is a multiple of 4, a lane loads four
// columns at once.
//
// Grid:   x = B * H * nq * splits.
// Block:  (128). A lane owns VECTOR neighbouring columns of every 32 * VECTOR.
// Shared: (4 * 256 + 8) * 4 bytes, static.
// Reads:  q, lengths; k and v of the part once. Writes: parts, parts_lse once; 0 and -inf for a part without a key.
//
// launch: grid=12 block=128
// args: f32[160]=random f32[6400]=random f32[6400]=random i32[2]={80,37} f32[480]=uninit f32[12]=uninit
// args: i32=2 i32=2 i32=1 i32=80 i32=40 f32=0.158 i32=3
#include "prelude.cuh"

constexpr int THREADS = 128;
constexpr int WARPS = THREADS / 32;
constexpr int MAX_DIM = 256;
constexpr int COLUMNS = MAX_DIM / 32;  // columns of a lane
constexpr int UNROLL = 4;              // keys of a warp at a time

template <int VECTOR>
__device__ __forceinline__ int column(int c, int lane) {
    return (c / VECTOR * 32 + lane) * VECTOR + c % VECTOR;
}

// This lane's columns of a row. Those from head_dim on are 0.
template <int VECTOR>
__device__ __forceinline__ void load(float (&x)[COLUMNS], const float* row, int head_dim, int lane) {
#pragma unroll
    for (int c = 0; c < COLUMNS; c += VECTOR) {
        const int d = column<VECTOR>(c, lane);
        if (VECTOR == 4) {
            const float4 four = d < head_dim ? *reinterpret_cast<const float4*>(row + d) : float4{0.0f, 0.0f, 0.0f, 0.0f};
            x[c] = four.x, x[c + 1] = four.y, x[c + 2] = four.z, x[c + 3] = four.w;
        } else {
            x[c] = d < head_dim ? row[d] : 0.0f;
        }
    }
}

// Maximum, sum and output of this warp's keys of [first, end), in steps of the block.
template <int VECTOR>
__device__ __forceinline__ void walk(
    const float* q, const float* k, const float* v, int first, int end, int head_dim, float scale, int lane,
    float& max_reg, float& sum_reg, float* o_smem
) {
    float q_reg[COLUMNS], o_reg[COLUMNS] = {};
    load<VECTOR>(q_reg, q, head_dim, lane);
    for (int key = first; key < end; key += WARPS * UNROLL) {
        float s_reg[UNROLL], x_reg[UNROLL][COLUMNS];
        float new_max = max_reg;
#pragma unroll
        for (int u = 0; u < UNROLL; u++) load<VECTOR>(x_reg[u], k + min(key + u, end - 1) * head_dim, head_dim, lane);
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            float product = 0.0f;
#pragma unroll
            for (int c = 0; c < COLUMNS; c++) product += q_reg[c] * x_reg[u][c];
            s_reg[u] = warp_sum(product) * scale;
            if (key + u >= end) s_reg[u] = -INFINITY;
            new_max = fmaxf(new_max, s_reg[u]);  // finite: the first of the four is a key
        }
#pragma unroll
        for (int u = 0; u < UNROLL; u++) load<VECTOR>(x_reg[u], v + min(key + u, end - 1) * head_dim, head_dim, lane);
        const float shrink = __expf(max_reg - new_max);
        max_reg = new_max;
        sum_reg *= shrink;
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            s_reg[u] = __expf(s_reg[u] - new_max);
            sum_reg += s_reg[u];
        }
#pragma unroll
        for (int c = 0; c < COLUMNS; c++) {
            float pv = 0.0f;
#pragma unroll
            for (int u = 0; u < UNROLL; u++) pv += s_reg[u] * x_reg[u][c];
            o_reg[c] = o_reg[c] * shrink + pv;
        }
    }
#pragma unroll
    for (int c = 0; c < COLUMNS; c++) o_smem[column<VECTOR>(c, lane)] = o_reg[c];
}

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
    __shared__ float o_smem[WARPS][MAX_DIM];
    __shared__ float max_smem[WARPS], sum_smem[WARPS];
    const int part = blockIdx.x % splits;
    const long long row = blockIdx.x / splits;  // (b * H + h) * nq + i
    const int i = row % nq, h = row / nq % heads, b = row / nq / heads;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int keys = max(0, lengths[b] - nq + i + 1);  // that the query sees
    const int size = (keys + splits - 1) / splits;
    const int end = min(keys, (part + 1) * size);
    const long long first = (static_cast<long long>(b) * (heads / group) + h / group) * max_seq * head_dim;
    const float* k = k_cache + first;
    const float* v = v_cache + first;
    const int begin = part * size + warp * UNROLL;
    float max_reg = -INFINITY, sum_reg = 0.0f;
    const unsigned long long addresses = reinterpret_cast<unsigned long long>(q) | reinterpret_cast<unsigned long long>(k_cache) |
                                         reinterpret_cast<unsigned long long>(v_cache);
    if (head_dim % 4 == 0 && addresses % 16 == 0) {  // then every row begins at a multiple of 16 bytes
        walk<4>(q + row * head_dim, k, v, begin, end, head_dim, scale, lane, max_reg, sum_reg, o_smem[warp]);
    } else {
        walk<1>(q + row * head_dim, k, v, begin, end, head_dim, scale, lane, max_reg, sum_reg, o_smem[warp]);
    }
    if (lane == 0) {
        max_smem[warp] = max_reg;
        sum_smem[warp] = sum_reg;
    }
    __syncthreads();  // so that no thread reads what a warp has not stored yet
    float max = -INFINITY;
    for (int w = 0; w < WARPS; w++) max = fmaxf(max, max_smem[w]);
    const float shift = max == -INFINITY ? 0.0f : max;  // exp(-inf - -inf) would be NaN
    float sum = 0.0f, weight[WARPS];
#pragma unroll
    for (int w = 0; w < WARPS; w++) {
        weight[w] = __expf(max_smem[w] - shift);
        sum += weight[w] * sum_smem[w];
    }
    const float inverse = sum == 0.0f ? 0.0f : 1.0f / sum;
    for (int d = threadIdx.x; d < head_dim; d += THREADS) {
        float x = 0.0f;
#pragma unroll
        for (int w = 0; w < WARPS; w++) x += weight[w] * o_smem[w][d];
        parts[static_cast<long long>(blockIdx.x) * head_dim + d] = x * inverse;
    }
    if (threadIdx.x == 0) parts_lse[blockIdx.x] = max + logf(sum);  // log(0) = -inf
}
