// FlashDecoding: attention on a part of the keys of one query, in any cache.
//
// Idea: a block takes a part of the keys of one query, and writes the o and lse of this part;
// combine.cu merges the parts. LANES lanes read a row of k or v by vectors of 16 bytes; each such
// group of lanes keeps a softmax of its own, over every n-th key, and holds a few rows in registers
// at a time, so that their loads are in flight together.
//
//     for each UNROLL keys of the group:
//         load the rows of k and of v;  s = scale * q k^T, a sum over the lanes of the group
//         m' = max(m, s); p = exp(s - m'); c = exp(m - m'); l = c l + sum(p); o = c o + p v
//     merge (m, l, o) of the groups of the block;  o = o / l;  lse = m + log(l)
//
// Grid:   x = B * H * nq * splits.
// Block:  (128).
// Shared: (5 * HEAD_MAX + 8) * 4 bytes, static.
// Reads:  q, lengths, and the page table if there is one; k and v once for each query of each head.
// Writes: o, lse of the part; o = 0 and lse = -inf for a part without a visible key.
// Constants: ELEMENT (f32, f16, bf16); HEAD_MAX (32, 64, 128), at least D.
// For one row of q to a head of k, D up to 128, and rows at multiples of 16 bytes;
// grouped.cu takes all others.
//
// launch: grid=24 block=128
// define: ELEMENT=f16 HEAD_MAX=64
// args: f32[320]=random f16[6400]=random f16[6400]=random i32[2]={80,37} null f32[960]=uninit
// args: f32[24]=uninit
// args: {{i64=160,80,40}, {i64=480,240,120}, {i32=1,80,40,0,0}, i32=2,2,2,3,50,f32=0.158}
#include "cache.cuh"
#include "problem.cuh"

constexpr int THREADS = 128;
constexpr int WARPS = THREADS / 32;
constexpr int CHUNK = Chunk<16>::ELEMENTS;              // elements of a chunk
constexpr int ROW_CHUNKS = HEAD_MAX / CHUNK;                // chunks of a row
constexpr int LANES = ROW_CHUNKS < 32 ? ROW_CHUNKS : 32;    // lanes that share a row
constexpr int CHUNKS = ROW_CHUNKS / LANES;                  // chunks of a lane
constexpr int COLUMNS = CHUNKS * CHUNK;                     // columns of a lane
constexpr int GROUPS = THREADS / LANES;                     // groups of lanes of a block
constexpr int UNROLL = 4;                                   // rows of k and of v that a group has in flight
constexpr float LOG2_E = 1.4426950408889634f;

// Column c of a lane. Neighbouring lanes load neighbouring chunks.
__device__ __forceinline__ int column(int c, int lane) {
    return (c / CHUNK * LANES + lane) * CHUNK + c % CHUNK;
}

// ANCHOR: load
// This lane's columns of a row of k and of v; 0 beyond D.
__device__ __forceinline__ void load(
    Chunk<16> (&k_chunks)[CHUNKS], Chunk<16> (&v_chunks)[CHUNKS],
    const Bits* k_row, const Bits* v_row, int head_dim, int lane
) {
#pragma unroll
    for (int n = 0; n < CHUNKS; n++) {
        const int first = (n * LANES + lane) * CHUNK;
        if (first < head_dim) {
            k_chunks[n] = *reinterpret_cast<const Chunk<16>*>(k_row + first);
            v_chunks[n] = *reinterpret_cast<const Chunk<16>*>(v_row + first);
        }
    }
}
// ANCHOR_END: load

// ANCHOR: kernel
extern "C" __global__ void __launch_bounds__(THREADS) split(
    const float* q,      // [B, H, nq, D] f32
    const Bits* k,       // [B, H_kv, max_seq, D], or [pages, H_kv, page_size, D]
    const Bits* v,       // the same
    const int* lengths,  // [B] i32
    const int* pages,    // [B, columns] i32, or null
    float* o,            // [B, H, nq, splits, D] f32
    float* lse,          // [B, H, nq, splits] f32, or null
    Problem problem
) {
    __shared__ float q_smem[HEAD_MAX];
    __shared__ float o_smem[WARPS][HEAD_MAX];
    __shared__ float max_smem[WARPS];
    __shared__ float sum_smem[WARPS];
    const int part_index = blockIdx.x % problem.splits;
    const int i = blockIdx.x / problem.splits % problem.nq;
    const int matrix = blockIdx.x / problem.splits / problem.nq;
    const int b = matrix / problem.heads;
    const int h = matrix % problem.heads;
    const int head_dim = problem.cache.head_dim;
    const int lane = threadIdx.x % LANES;
    const int group = threadIdx.x / LANES;
    const int warp = threadIdx.x / 32;
    const Rows rows(pages, b, h / problem.group, problem.cache);
    const Keys keys = part(visible(i, i, length_of(lengths, b, problem), problem), part_index, problem.splits);

    const float* q_row = q + b * problem.q.batch + h * problem.q.head + i * problem.q.row;
    for (int d = threadIdx.x; d < HEAD_MAX; d += THREADS) {
        q_smem[d] = d < head_dim ? q_row[d] : 0.0f;
    }
    __syncthreads();  // so that no thread reads q before every thread has stored its part
    float q_reg[COLUMNS];
#pragma unroll
    for (int c = 0; c < COLUMNS; c++) {
        q_reg[c] = q_smem[column(c, lane)];
    }
    float max_reg = -INFINITY;  // of the keys of the group
    float sum_reg = 0.0f;
    float o_reg[COLUMNS] = {};

    // Neighbouring groups take neighbouring keys. The loop is the same for all threads, so all
    // lanes meet at the shuffles.
    for (int key = keys.begin; key < keys.end; key += GROUPS * UNROLL) {
        Chunk<16> k_reg[UNROLL][CHUNKS] = {}, v_reg[UNROLL][CHUNKS] = {};
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            const int j = key + u * GROUPS + group;
            if (j < keys.end) {
                const long long row = rows[j];
                load(k_reg[u], v_reg[u], k + row, v + row, head_dim, lane);
            }
        }
        // ANCHOR: softmax
        float s_reg[UNROLL];
        float max = max_reg;
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            float s = 0.0f;
#pragma unroll
            for (int c = 0; c < COLUMNS; c++) {
                s += q_reg[c] * ELEMENT::widen(k_reg[u][c / CHUNK].bits[c % CHUNK]);
            }
#pragma unroll
            for (int distance = LANES / 2; distance > 0; distance /= 2) {
                s += __shfl_xor_sync(0xffffffffu, s, distance);
            }
            s_reg[u] = key + u * GROUPS + group < keys.end ? s * problem.scale : -INFINITY;
            max = fmaxf(max, s_reg[u]);
        }
        // exp(-inf - -inf) is NaN: where nothing has been seen, subtract nothing,
        // and every exponential is 0.
        const float shift = max == -INFINITY ? 0.0f : max;
        const float shrink = ex2_approx_ftz_f32((max_reg - shift) * LOG2_E);
        max_reg = max;
        sum_reg *= shrink;
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            s_reg[u] = ex2_approx_ftz_f32((s_reg[u] - shift) * LOG2_E);
            sum_reg += s_reg[u];
        }
        // ANCHOR_END: softmax
#pragma unroll
        for (int c = 0; c < COLUMNS; c++) {
            float pv = 0.0f;
#pragma unroll
            for (int u = 0; u < UNROLL; u++) {
                pv += s_reg[u] * ELEMENT::widen(v_reg[u][c / CHUNK].bits[c % CHUNK]);
            }
            o_reg[c] = o_reg[c] * shrink + pv;
        }
    }

    // ANCHOR: merge
    // The groups of a warp meet by shuffles, then the warps in shared memory.
    float max = max_reg;
#pragma unroll
    for (int distance = LANES; distance < 32; distance *= 2) {
        max = fmaxf(max, __shfl_xor_sync(0xffffffffu, max, distance));
    }
    const float shrink = ex2_approx_ftz_f32((max_reg - (max == -INFINITY ? 0.0f : max)) * LOG2_E);
    sum_reg *= shrink;
#pragma unroll
    for (int distance = LANES; distance < 32; distance *= 2) {
        sum_reg += __shfl_xor_sync(0xffffffffu, sum_reg, distance);
    }
#pragma unroll
    for (int c = 0; c < COLUMNS; c++) {
        float x = o_reg[c] * shrink;
#pragma unroll
        for (int distance = LANES; distance < 32; distance *= 2) {
            x += __shfl_xor_sync(0xffffffffu, x, distance);
        }
        if (threadIdx.x % 32 < LANES) {
            o_smem[warp][column(c, lane)] = x;
        }
    }
    if (threadIdx.x % 32 == 0) {
        max_smem[warp] = max;
        sum_smem[warp] = sum_reg;
    }
    __syncthreads();  // so that no thread reads the sums of a warp before they are stored
    float block_max = -INFINITY;
    for (int w = 0; w < WARPS; w++) {
        block_max = fmaxf(block_max, max_smem[w]);
    }
    const float shift = block_max == -INFINITY ? 0.0f : block_max;
    float weight[WARPS];
    float sum = 0.0f;
#pragma unroll
    for (int w = 0; w < WARPS; w++) {
        weight[w] = ex2_approx_ftz_f32((max_smem[w] - shift) * LOG2_E);
        sum += weight[w] * sum_smem[w];
    }
    // ANCHOR_END: merge
    const float inverse = sum == 0.0f ? 0.0f : 1.0f / sum;
    float* o_row = o + b * problem.o.batch + h * problem.o.head + i * problem.o.row + part_index * head_dim;
    for (int d = threadIdx.x; d < head_dim; d += THREADS) {
        float x = 0.0f;
#pragma unroll
        for (int w = 0; w < WARPS; w++) {
            x += weight[w] * o_smem[w][d];
        }
        o_row[d] = x * inverse;
    }
    if (threadIdx.x == 0 && lse != nullptr) {
        lse[blockIdx.x] = block_max + logf(sum);  // log(0) = -inf
    }
}
// ANCHOR_END: kernel
