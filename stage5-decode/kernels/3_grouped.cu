// Attention on a part of a KV cache for grouped heads: heads of q that share a head of k and v
// share one read of it.
//
// Idea: a block takes a part of the keys for 4 heads of a group. Each row of k is loaded once
// and multiplied by the queries of all four, each row of v once by their weights. Every head
// keeps a softmax of its own.
//
// Grid:   x = B * H_kv * ceil(group / 4) * nq * splits.
// Block:  (128). Lanes lie along the columns for q k^T; threads own columns of o.
// Shared: 4 * (256 + 128 + 4) * 4 bytes, static.
// Reads:  q, lengths; k and v of the part once for 4 heads. Writes: parts, parts_lse once, for
//         combine.cu; 0 and -inf for a part without a key.
// Since rung 2: a block has up to 4 heads of q.
// What limits it now: latency. A lane loads 4 bytes at a time, and all warps meet at four
// barriers for each tile. The library loads 16 bytes at a time and several rows before it uses
// the first, and is bound by DRAM.
//
// launch: grid=12 block=128
// args: f32[240]=random f32[6400]=random f32[6400]=random i32[2]={80,37} f32[720]=uninit
// args: f32[36]=uninit
// args: i32=6 i32=3 i32=1 i32=80 i32=20 f32=0.224 i32=3
#include "prelude.cuh"

constexpr int THREADS = 128;
constexpr int WARPS = THREADS / 32;
constexpr int MAX_DIM = 256;
constexpr int COLUMNS = MAX_DIM / THREADS;  // columns of o of a thread: threadIdx.x + THREADS * c
constexpr int HEADS = 4;                    // of q that a block serves

extern "C" __global__ void __launch_bounds__(THREADS) grouped(
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
    __shared__ float q_smem[HEADS][MAX_DIM];
    __shared__ float p_smem[HEADS][THREADS];  // scores, then exponentials
    __shared__ float warp_smem[HEADS][WARPS];
    const int part = blockIdx.x % splits;
    const int i = blockIdx.x / splits % nq;
    const int sets = (group + HEADS - 1) / HEADS;                    // of up to 4 heads, in a group
    const int set = blockIdx.x / splits / nq % sets;
    const long long kv_head = blockIdx.x / splits / nq / sets;       // b * H_kv + head of k and v
    const int b = kv_head / (heads / group);
    const long long first_head = kv_head * group + set * HEADS;  // b * H + the first head of q
    const int own = min(HEADS, group - set * HEADS);                 // heads of q that there are
    const int lane = threadIdx.x % 32;
    const int warp = threadIdx.x / 32;
    const int keys = max(0, lengths[b] - nq + i + 1);  // that the queries see
    const int size = (keys + splits - 1) / splits;
    const int begin = part * size;
    const int end = min(keys, begin + size);
    for (int x = threadIdx.x; x < HEADS * head_dim; x += THREADS) {
        const int r = x / head_dim;
        const int d = x % head_dim;
        q_smem[r][d] = r < own ? q[((first_head + r) * nq + i) * head_dim + d] : 0.0f;
    }
    __syncthreads();  // so that no warp reads q before every thread has stored its part

    float max_reg[HEADS] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY};
    float sum_reg[HEADS] = {};  // of this thread's keys
    float o_reg[HEADS][COLUMNS] = {};
    for (int key = begin; key < end; key += THREADS) {
        const float* k = k_cache + (kv_head * max_seq + key) * head_dim;
        const float* v = v_cache + (kv_head * max_seq + key) * head_dim;
        // ANCHOR: scores
        for (int j = warp; j < THREADS; j += WARPS) {
            float product[HEADS] = {};
            for (int d = lane; key + j < end && d < head_dim; d += 32) {
                const float x = k[j * head_dim + d];
                for (int r = 0; r < HEADS; r++) {
                    product[r] += q_smem[r][d] * x;
                }
            }
            for (int r = 0; r < HEADS; r++) {
                const float s = warp_sum(product[r]) * scale;
                if (lane == 0) {
                    p_smem[r][j] = key + j < end ? s : -INFINITY;
                }
            }
        }
        __syncthreads();  // so that no thread reads a score before its warp has stored it
        // ANCHOR_END: scores
        for (int r = 0; r < HEADS; r++) {
            const float warp_largest = warp_max(p_smem[r][threadIdx.x]);
            if (lane == 0) {
                warp_smem[r][warp] = warp_largest;
            }
        }
        __syncthreads();  // so that no thread reads the maximum of a warp before it is stored
        float shrink[HEADS];
        for (int r = 0; r < HEADS; r++) {
            float max = max_reg[r];
            for (int w = 0; w < WARPS; w++) {
                max = fmaxf(max, warp_smem[r][w]);  // finite: the tile has a key
            }
            shrink[r] = __expf(max_reg[r] - max);
            const float p = __expf(p_smem[r][threadIdx.x] - max);
            p_smem[r][threadIdx.x] = p;
            sum_reg[r] = sum_reg[r] * shrink[r] + p;
            max_reg[r] = max;
        }
        __syncthreads();  // so that no thread reads p before every thread has stored its own
        for (int c = 0, d = threadIdx.x; c < COLUMNS && d < head_dim; c++, d += THREADS) {
            float pv_reg[HEADS] = {};  // of this tile alone, so that long sums lose fewer digits
            for (int j = 0; j < THREADS && key + j < end; j++) {
                const float x = v[j * head_dim + d];
                for (int r = 0; r < HEADS; r++) {
                    pv_reg[r] += p_smem[r][j] * x;
                }
            }
            for (int r = 0; r < HEADS; r++) {
                o_reg[r][c] = o_reg[r][c] * shrink[r] + pv_reg[r];
            }
        }
        __syncthreads();  // so that no thread stores the next scores while another still reads p
    }

    for (int r = 0; r < HEADS; r++) {
        const float warp_total = warp_sum(sum_reg[r]);
        if (lane == 0) {
            warp_smem[r][warp] = warp_total;
        }
    }
    __syncthreads();  // so that no thread reads the sum of a warp before it is stored
    for (int r = 0; r < own; r++) {
        float sum = 0.0f;
        for (int w = 0; w < WARPS; w++) {
            sum += warp_smem[r][w];
        }
        const float inverse = sum == 0.0f ? 0.0f : 1.0f / sum;
        const long long row = ((first_head + r) * nq + i) * splits + part;
        for (int c = 0, d = threadIdx.x; c < COLUMNS && d < head_dim; c++, d += THREADS) {
            parts[row * head_dim + d] = o_reg[r][c] * inverse;
        }
        if (threadIdx.x == 0) {
            parts_lse[row] = max_reg[r] + logf(sum);  // log(0) = -inf
        }
    }
}
