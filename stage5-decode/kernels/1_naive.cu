// Attention of the newest tokens on a KV cache: a block for each sequence and head walks the cache.
//
// Idea: q has few rows, often one, so nothing is used twice: every key and value is read, used once, and forgotten. The block
// takes 128 keys at a time: a warp computes the score of a key, then a thread the sum of p v in a column. Softmax online.
//
// Grid:   x = B * H.
// Block:  (128). Lanes lie along the columns for q k^T; threads own columns of o.
// Shared: (256 + 128 + 4) * 4 bytes, static.
// Reads:  q, lengths, and the page table if there is one; k and v once for each query. Writes: o, lse once; o = 0 and lse = -inf for a query that sees no key.
// Constants: ELEMENT (f32, f16, bf16).
//
// launch: grid=4 block=128
// define: ELEMENT=f32
// args: f32[320]=random f32[6400]=random f32[6400]=random i32[2]={80,37} null f32[320]=uninit f32[8]=uninit
// args: {{i64=160,80,40}, {i64=160,80,40}, {i32=1,80,40,0,0}, i32=2,2,2,1,50,f32=0.158}
#include "cache.cuh"
#include "problem.cuh"

constexpr int THREADS = 128;
constexpr int WARPS = THREADS / 32;
constexpr int MAX_DIM = 256;
constexpr int COLUMNS = MAX_DIM / THREADS;  // columns of o of a thread: threadIdx.x + THREADS * c

// ANCHOR: kernel
extern "C" __global__ void __launch_bounds__(THREADS) naive(
    const float* q,      // [B, H, nq, D] f32
    const Bits* k,       // [B, H_kv, max_seq, D], or [pages, H_kv, page_size, D]
    const Bits* v,       // the same
    const int* lengths,  // [B] i32
    const int* pages,    // [B, columns] i32, or null
    float* o,            // [B, H, nq, D] f32
    float* lse,          // [B, H, nq] f32, packed, or null
    Problem problem
) {
    __shared__ float q_smem[MAX_DIM];
    __shared__ float p_smem[THREADS];  // scores, then exponentials
    __shared__ float warp_smem[WARPS];
    const int b = blockIdx.x / problem.heads, h = blockIdx.x % problem.heads;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int length = length_of(lengths, b, problem);
    const Rows rows(pages, b, h / problem.group, problem.cache);
    const int head_dim = problem.cache.head_dim;

    for (int i = 0; i < problem.nq; i++) {
        const float* q_row = q + b * problem.q.batch + h * problem.q.head + i * problem.q.row;
        for (int d = threadIdx.x; d < head_dim; d += THREADS) {
            q_smem[d] = q_row[d];
        }
        __syncthreads();  // so that no warp reads q before every thread has stored its part
        float max_reg = -INFINITY;
        float sum_reg = 0.0f;  // of this thread's keys
        float o_reg[COLUMNS] = {};
        const Keys keys = visible(i, i, length, problem);
        for (int key = keys.begin; key < keys.end; key += THREADS) {
            // ANCHOR: scores
            for (int j = warp; j < THREADS; j += WARPS) {
                float s = -INFINITY;
                if (key + j < keys.end) {
                    const Bits* k_row = k + rows[key + j];
                    float product = 0.0f;
                    for (int d = lane; d < head_dim; d += 32) {
                        product += q_smem[d] * ELEMENT::widen(k_row[d]);
                    }
                    s = warp_sum(product) * problem.scale;
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
            float pv_reg[COLUMNS] = {};  // of this tile alone: long sums of short sums lose fewer digits
            for (int j = 0; j < THREADS && key + j < keys.end; j++) {
                const Bits* v_row = v + rows[key + j];
                for (int c = 0, d = threadIdx.x; c < COLUMNS && d < head_dim; c++, d += THREADS) {
                    pv_reg[c] += p_smem[j] * ELEMENT::widen(v_row[d]);
                }
            }
            for (int c = 0; c < COLUMNS; c++) {
                o_reg[c] = o_reg[c] * shrink + pv_reg[c];
            }
            __syncthreads();  // so that no thread stores the next scores while another still reads p
            // ANCHOR_END: accumulate
        }
        // ANCHOR: epilogue
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
        float* o_row = o + b * problem.o.batch + h * problem.o.head + i * problem.o.row;
        for (int c = 0, d = threadIdx.x; c < COLUMNS && d < head_dim; c++, d += THREADS) {
            o_row[d] = o_reg[c] * inverse;
        }
        if (threadIdx.x == 0 && lse != nullptr) {
            const long long row = static_cast<long long>(blockIdx.x) * problem.nq + i;
            lse[row] = max_reg + logf(sum);  // log(0) = -inf
        }
        __syncthreads();  // so that no thread stores the next q, or the next sums, while another still reads these
        // ANCHOR_END: epilogue
    }
}
// ANCHOR_END: kernel
