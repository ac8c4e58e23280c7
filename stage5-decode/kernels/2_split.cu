// Attention of the newest tokens on a part of a KV cache: a long sequence keeps the whole
// device busy (FlashDecoding).
//
// Idea: the keys that a query sees are divided into parts, and each part has a block, which
// walks it as rung 1 does. combine.cu merges the parts by their log-sum-exp.
//
// Grid:   x = B * H * nq * splits.
// Block:  (128). Lanes lie along the columns for q k^T; threads own columns of o.
// Shared: (256 + 128 + 4) * 4 bytes, static.
// Reads:  q, lengths; k and v of the part once. Writes: parts, parts_lse once; 0 and -inf for a
//         part without a key.
// Since rung 1: a block has a part of the keys.
// What limits it now: latency. A block waits for each of its loads, and a load serves one head:
// the heads of a group load the same rows of k and v, each for itself.
//
// launch: grid=12 block=128
// args: f32[160]=random f32[6400]=random f32[6400]=random i32[2]={80,37} f32[480]=uninit
// args: f32[12]=uninit
// args: i32=2 i32=2 i32=1 i32=80 i32=40 f32=0.158 i32=3
#include "prelude.cuh"

constexpr int THREADS = 128;
constexpr int WARPS = THREADS / 32;
constexpr int MAX_DIM = 256;
constexpr int COLUMNS = MAX_DIM / THREADS;  // columns of o of a thread: threadIdx.x + THREADS * c

extern "C" __global__ void __launch_bounds__(THREADS) split(
    const float* q,        // [B, H, nq, D] f32
    const float* k_cache,  // [B, H_kv, max_seq, D] f32
    const float* v_cache,  // [B, H_kv, max_seq, D] f32
    const int* lengths,    // [B] i32
    float* parts,          // [B, H, nq, splits, D] f32
    float* parts_lse,      // [B, H, nq, splits] f32
    int heads,             // H
    int group,             // H / H_kv
    int nq,
    int max_seq,
    int head_dim,          // D, 1 to 256
    float scale,
    int splits
) {
    __shared__ float q_smem[MAX_DIM];
    __shared__ float p_smem[THREADS];  // scores, then exponentials
    __shared__ float warp_smem[WARPS];
    const int part = blockIdx.x % splits;
    const long long row = blockIdx.x / splits;  // (b * H + h) * nq + i
    const int i = row % nq;
    const int h = row / nq % heads;
    const int b = row / nq / heads;
    const int lane = threadIdx.x % 32;
    const int warp = threadIdx.x / 32;
    const int keys = max(0, lengths[b] - nq + i + 1);  // that the query sees
    const int size = (keys + splits - 1) / splits;
    const int begin = part * size;
    const int end = min(keys, begin + size);
    const long long first = (static_cast<long long>(b) * (heads / group) + h / group) * max_seq * head_dim;
    for (int d = threadIdx.x; d < head_dim; d += THREADS) {
        q_smem[d] = q[row * head_dim + d];
    }
    __syncthreads();  // so that no warp reads q before every thread has stored its part

    float max_reg = -INFINITY;
    float sum_reg = 0.0f;  // of this thread's keys
    float o_reg[COLUMNS] = {};
    for (int key = begin; key < end; key += THREADS) {
        const float* k = k_cache + first + static_cast<long long>(key) * head_dim;
        const float* v = v_cache + first + static_cast<long long>(key) * head_dim;
        for (int j = warp; j < THREADS; j += WARPS) {
            float s = -INFINITY;
            if (key + j < end) {
                float product = 0.0f;
                for (int d = lane; d < head_dim; d += 32) {
                    product += q_smem[d] * k[j * head_dim + d];
                }
                s = warp_sum(product) * scale;
            }
            if (lane == 0) {
                p_smem[j] = s;
            }
        }
        __syncthreads();  // so that no thread reads a score before its warp has stored it
        const float s = p_smem[threadIdx.x];
        const float warp_largest = warp_max(s);
        if (lane == 0) {
            warp_smem[warp] = warp_largest;
        }
        __syncthreads();  // so that no thread reads the maximum of a warp before it is stored
        float max = max_reg;
        for (int w = 0; w < WARPS; w++) {
            max = fmaxf(max, warp_smem[w]);  // finite: the tile has a key
        }
        const float shrink = __expf(max_reg - max);
        const float p = __expf(s - max);
        p_smem[threadIdx.x] = p;
        sum_reg = sum_reg * shrink + p;
        max_reg = max;
        __syncthreads();  // so that no thread reads p before every thread has stored its own
        float pv_reg[COLUMNS] = {};  // of this tile alone, so that long sums lose fewer digits
        for (int j = 0; j < THREADS && key + j < end; j++) {
            for (int c = 0, d = threadIdx.x; c < COLUMNS && d < head_dim; c++, d += THREADS) {
                pv_reg[c] += p_smem[j] * v[j * head_dim + d];
            }
        }
        for (int c = 0; c < COLUMNS; c++) {
            o_reg[c] = o_reg[c] * shrink + pv_reg[c];
        }
        __syncthreads();  // so that no thread stores the next scores while another still reads p
    }

    const float warp_total = warp_sum(sum_reg);
    if (lane == 0) {
        warp_smem[warp] = warp_total;
    }
    __syncthreads();  // so that no thread reads the sum of a warp before it is stored
    float sum = 0.0f;
    for (int w = 0; w < WARPS; w++) {
        sum += warp_smem[w];
    }
    const float inverse = sum == 0.0f ? 0.0f : 1.0f / sum;
    for (int c = 0, d = threadIdx.x; c < COLUMNS && d < head_dim; c++, d += THREADS) {
        parts[blockIdx.x * static_cast<long long>(head_dim) + d] = o_reg[c] * inverse;
    }
    if (threadIdx.x == 0) {
        parts_lse[blockIdx.x] = max_reg + logf(sum);  // log(0) = -inf
    }
}
