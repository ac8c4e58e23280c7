// Attention of the newest tokens on a KV cache: a block for each query walks the cache.
//
// Idea: every key and value is read, used once, and forgotten. The block takes 128 keys at a
// time: a warp computes the score of a key, its lanes along the columns; then a thread the sum
// of p v in a column. Softmax online.
//
// Grid:   x = B * H * nq.
// Block:  (128). Lanes lie along the columns for q k^T; threads own columns of o.
// Shared: (256 + 128 + 4) * 4 bytes, static.
// Reads:  q, lengths; k and v once. Writes: o, lse once; o = 0 and lse = -inf for a query that
//         sees no key.
// What limits it now: latency. One sequence has as many blocks as heads, so most SMs are idle,
// and each block waits for its loads.
//
// launch: grid=4 block=128
// args: f32[160]=random f32[6400]=random f32[6400]=random i32[2]={80,37} f32[160]=uninit
// args: f32[4]=uninit
// args: i32=2 i32=2 i32=1 i32=80 i32=40 f32=0.158
#include "prelude.cuh"

constexpr int THREADS = 128;
constexpr int WARPS = THREADS / 32;
constexpr int MAX_DIM = 256;
constexpr int COLUMNS = MAX_DIM / THREADS;  // columns of o of a thread: threadIdx.x + THREADS * c

extern "C" __global__ void __launch_bounds__(THREADS) decode(
    const float* q,        // [B, H, nq, D] f32
    const float* k_cache,  // [B, H_kv, max_seq, D] f32
    const float* v_cache,  // [B, H_kv, max_seq, D] f32
    const int* lengths,    // [B] i32
    float* o,              // [B, H, nq, D] f32
    float* lse,            // [B, H, nq] f32, or null
    int heads,             // H
    int group,             // H / H_kv
    int nq,
    int max_seq,
    int head_dim,          // D, 1 to 256
    float scale
) {
    __shared__ float q_smem[MAX_DIM];
    __shared__ float p_smem[THREADS];  // scores, then exponentials
    __shared__ float warp_smem[WARPS];
    const long long row = blockIdx.x;  // (b * H + h) * nq + i
    const int i = blockIdx.x % nq;
    const int h = blockIdx.x / nq % heads;
    const int b = blockIdx.x / nq / heads;
    const int lane = threadIdx.x % 32;
    const int warp = threadIdx.x / 32;
    const int keys = lengths[b] - nq + i + 1;  // that the query sees; 0 or less if it sees none
    const long long first = (static_cast<long long>(b) * (heads / group) + h / group) * max_seq * head_dim;
    for (int d = threadIdx.x; d < head_dim; d += THREADS) {
        q_smem[d] = q[row * head_dim + d];
    }
    __syncthreads();  // so that no warp reads q before every thread has stored its part

    float max_reg = -INFINITY;
    float sum_reg = 0.0f;  // of this thread's keys
    float o_reg[COLUMNS] = {};
    for (int key = 0; key < keys; key += THREADS) {
        const float* k = k_cache + first + static_cast<long long>(key) * head_dim;
        const float* v = v_cache + first + static_cast<long long>(key) * head_dim;
        // ANCHOR: scores
        for (int j = warp; j < THREADS; j += WARPS) {
            float s = -INFINITY;
            if (key + j < keys) {
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
        // ANCHOR_END: scores
        // ANCHOR: softmax
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
        // ANCHOR_END: softmax
        // ANCHOR: accumulate
        float pv_reg[COLUMNS] = {};  // of this tile alone, so that long sums lose fewer digits
        for (int j = 0; j < THREADS && key + j < keys; j++) {
            for (int c = 0, d = threadIdx.x; c < COLUMNS && d < head_dim; c++, d += THREADS) {
                pv_reg[c] += p_smem[j] * v[j * head_dim + d];
            }
        }
        for (int c = 0; c < COLUMNS; c++) {
            o_reg[c] = o_reg[c] * shrink + pv_reg[c];
        }
        __syncthreads();  // so that no thread stores the next scores while another still reads p
        // ANCHOR_END: accumulate
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
        o[row * head_dim + d] = o_reg[c] * inverse;
    }
    if (threadIdx.x == 0 && lse != nullptr) {
        lse[row] = max_reg + logf(sum);  // log(0) = -inf
    }
}
