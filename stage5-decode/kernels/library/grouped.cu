// Decode for grouped heads and several queries: one read of k and v serves all rows of q.
//
// Idea: G query heads share a head of k and v, so G * nq rows see the same keys; row r is query
// r % nq of head r / nq. A block takes a part of the keys, as split.cu does, but for all these
// rows. It copies tiles of k and v to shared memory, 16 bytes at a time; a warp takes ROWS rows and
// every n-th key of the tile, and keeps m, l and o of its rows in registers.
//
//     for each tile of keys, in shared memory:
//         each warp: for UNROLL keys of the tile: for each of its rows:
//             s = scale * q k^T; m' = max(m, s); p = exp(s - m'); c = exp(m - m')
//             l = c l + sum(p); o = c o + p v
//     merge (m, l, o) of warps that have the same rows;  o = o / l;  lse = m + log(l)
//
// Grid:   x = B * H_kv * splits * ceil(G * nq / rows of a block).
// Block:  128, 256 or 512 threads, ROWS rows a warp at most. Few rows: several warps share them.
// Shared: 16384 bytes for k and v and rows * HEAD_MAX * 4 bytes for q, dynamic; 512 bytes static.
//         At the end of the block the memory of k, v and q holds o of each warp.
// Reads:  q, lengths, page table or null; k and v once for each block of rows. These blocks are
//         neighbours: the L2 cache has what the first loads. Writes: o, lse of the part.
// Constants: ELEMENT (f32, f16, bf16); HEAD_MAX (64, 128, 256), at least D.
//
// launch: grid=6 block=128 shared=19456
// define: ELEMENT=f16 HEAD_MAX=64
// args: f32[960]=random f16[6400]=random f16[6400]=random i32[2]={80,37} null f32[2880]=uninit
// args: f32[72]=uninit
// args: {{i64=480,80,40}, {i64=1440,240,120}, {i32=1,80,40,0,0}, i32=6,6,2,3,50,f32=0.158}
#include "cache.cuh"
#include "problem.cuh"

constexpr int ROWS = 4;                                     // rows of q of a warp
constexpr int UNROLL = 2;                                   // keys of a group of lanes that are computed together
constexpr int CHUNK = Chunk<16>::ELEMENTS;                  // elements of a chunk
constexpr int ROW_CHUNKS = HEAD_MAX / CHUNK;                // chunks of a row of k or v
constexpr int LANES = ROW_CHUNKS < 32 ? ROW_CHUNKS : 32;    // lanes that share a row
constexpr int CHUNKS = ROW_CHUNKS / LANES;                  // chunks of a lane
constexpr int COLUMNS = CHUNKS * CHUNK;                     // columns of a lane
constexpr int GROUPS = 32 / LANES;                          // groups of lanes of a warp
constexpr int TILE_CHUNKS = 512;                            // chunks of k, and of v, in shared memory
constexpr int KEYS = TILE_CHUNKS / ROW_CHUNKS;              // keys of a tile
constexpr int QUARTERS = CHUNK / 4;                         // vectors of four floats of a chunk
constexpr int MAX_WARPS = 16;
constexpr float LOG2_E = 1.4426950408889634f;
static_assert(KEYS % (4 * GROUPS * UNROLL) == 0, "four warps that share rows have as many keys of a tile each");

// ANCHOR: load
// Copies keys [first, end) of k and v to shared memory; 0 beyond the last key and beyond D.
__device__ __forceinline__ void load(
    Chunk<16>* k_smem, Chunk<16>* v_smem, const Bits* k, const Bits* v, const Rows& rows, Keys keys, bool aligned
) {
    if (aligned) {
#pragma unroll 2
        for (int x = threadIdx.x; x < TILE_CHUNKS; x += blockDim.x) {
            const int j = keys.begin + x / ROW_CHUNKS;
            const int d = x % ROW_CHUNKS * CHUNK;
            Chunk<16> k_chunk = {};
            Chunk<16> v_chunk = {};
            if (j < keys.end && d < rows.cache.head_dim) {
                const long long place = rows[j] + d;
                k_chunk = *reinterpret_cast<const Chunk<16>*>(k + place);
                v_chunk = *reinterpret_cast<const Chunk<16>*>(v + place);
            }
            k_smem[x] = k_chunk;
            v_smem[x] = v_chunk;
        }
    } else {
#pragma unroll 1
        for (int x = threadIdx.x; x < KEYS * HEAD_MAX; x += blockDim.x) {
            const int j = keys.begin + x / HEAD_MAX;
            const int d = x % HEAD_MAX;
            const bool inside = j < keys.end && d < rows.cache.head_dim;
            const long long place = inside ? rows[j] + d : 0;
            k_smem[x / CHUNK].bits[x % CHUNK] = inside ? k[place] : 0;
            v_smem[x / CHUNK].bits[x % CHUNK] = inside ? v[place] : 0;
        }
    }
}
// ANCHOR_END: load

// Where column d of a row of floats lies in shared memory, so that neighbouring lanes read
// neighbouring vectors: first the first four columns of every chunk, then the next four.
__device__ __forceinline__ int place(int d) {
    return d % CHUNK / 4 * (HEAD_MAX / QUARTERS) + d / CHUNK * 4 + d % 4;
}

struct alignas(16) Floats {
    float x[4];
};

// The vectors of four floats of a lane, in the order of its columns.
__device__ __forceinline__ Floats& vector_of(float* row_smem, int lane, int v) {
    const int chunk = v / QUARTERS * LANES + lane;
    return reinterpret_cast<Floats*>(row_smem)[v % QUARTERS * ROW_CHUNKS + chunk];
}

// ANCHOR: merge
// Scales one softmax to the larger maximum of two; returns the factor.
__device__ __forceinline__ float shrink_of(float& max_reg, float other) {
    const float max = fmaxf(max_reg, other);
    // exp(-inf - -inf) is NaN: where nothing has been seen, subtract 0. Every exponential is 0.
    const float shrink = ex2_approx_ftz_f32((max_reg - (max == -INFINITY ? 0.0f : max)) * LOG2_E);
    max_reg = max;
    return shrink;
}
// ANCHOR_END: merge

// ANCHOR: kernel
extern "C" __global__ void __launch_bounds__(512) grouped(
    const float* q,      // [B, H, nq, D] f32
    const Bits* k,       // [B, H_kv, max_seq, D], or [pages, H_kv, page_size, D]
    const Bits* v,       // the same
    const int* lengths,  // [B] i32
    const int* pages,    // [B, columns] i32, or null
    float* o,            // [B, H, nq, splits, D] f32
    float* lse,          // [B, H, nq, splits] f32, or null
    Problem problem
) {
    extern __shared__ Chunk<16> k_smem[];                             // [KEYS][HEAD_MAX]
    Chunk<16>* v_smem = k_smem + TILE_CHUNKS;                         // [KEYS][HEAD_MAX]
    float* q_smem = reinterpret_cast<float*>(v_smem + TILE_CHUNKS);   // [rows of the block][HEAD_MAX]
    __shared__ float max_smem[MAX_WARPS * ROWS];
    __shared__ float sum_smem[MAX_WARPS * ROWS];
    const int head_dim = problem.cache.head_dim;
    const int kv_heads = problem.cache.kv_heads;
    const int warp = threadIdx.x / 32;
    const int warps = blockDim.x / 32;
    const int lane = threadIdx.x % LANES;

    // ANCHOR: rows
    const int all_rows = problem.group * problem.nq;
    const int row_blocks = (all_rows + ROWS * warps - 1) / (ROWS * warps);
    const int row_block = blockIdx.x % row_blocks;
    const int block_row = static_cast<long long>(all_rows) * row_block / row_blocks;  // first row of the block
    const int block_rows = static_cast<long long>(all_rows) * (row_block + 1) / row_blocks - block_row;
    int row_warps = 1;                                                 // warps with rows of their own
    while (row_warps * ROWS < block_rows) {
        row_warps *= 2;
    }
    const int key_warps = warps / row_warps;                           // warps that share these rows, and the keys
    const int key_warp = warp / row_warps;
    const int share = (block_rows + row_warps - 1) / row_warps;        // rows of a warp
    const int warp_row = warp % row_warps * share;                     // first row of the warp in the block
    const int warp_rows = max(0, min(share, block_rows - warp_row));
    // ANCHOR_END: rows
    const int part_index = blockIdx.x / row_blocks % problem.splits;
    const int matrix = blockIdx.x / row_blocks / problem.splits;
    const int b = matrix / kv_heads;
    const int kv_head = matrix % kv_heads;
    const Rows rows(pages, b, kv_head, problem.cache);
    const auto addresses = reinterpret_cast<unsigned long long>(k) | reinterpret_cast<unsigned long long>(v);
    const bool aligned = addresses % 16 == 0 && head_dim % CHUNK == 0;
    const int length = length_of(lengths, b, problem);
    const Keys keys = part(visible(0, problem.nq - 1, length, problem), part_index, problem.splits);

    for (int x = threadIdx.x; x < block_rows * HEAD_MAX; x += blockDim.x) {
        const int r = block_row + x / HEAD_MAX;
        const int d = x % HEAD_MAX;
        const int h = kv_head * problem.group + r / problem.nq;
        const int i = r % problem.nq;
        const float* q_row = q + b * problem.q.batch + h * problem.q.head + i * problem.q.row;
        q_smem[x / HEAD_MAX * HEAD_MAX + place(d)] = d < head_dim ? q_row[d] : 0.0f;
    }
    __syncthreads();  // so that no warp reads q, or stores o over it, before every thread has stored its part
    float max_reg[ROWS];
    float sum_reg[ROWS] = {};
    float o_reg[ROWS][COLUMNS] = {};
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        max_reg[r] = -INFINITY;
    }

    for (int key = keys.begin; key < keys.end; key += KEYS) {
        load(k_smem, v_smem, k, v, rows, {key, keys.end}, aligned);
        __syncthreads();  // so that no warp reads k or v before every thread has stored its part
        const int step = key_warps * GROUPS;  // groups of lanes that share the tile
        for (int first = key_warp * GROUPS + threadIdx.x % 32 / LANES; first < KEYS; first += step * UNROLL) {
            float k_reg[UNROLL][COLUMNS];
            float v_reg[UNROLL][COLUMNS];
#pragma unroll
            for (int u = 0; u < UNROLL; u++) {
#pragma unroll
                for (int n = 0; n < CHUNKS; n++) {
                    const int x = (first + u * step) * ROW_CHUNKS + n * LANES + lane;
                    const Chunk<16> k_chunk = k_smem[x], v_chunk = v_smem[x];
#pragma unroll
                    for (int e = 0; e < CHUNK; e++) {
                        k_reg[u][n * CHUNK + e] = ELEMENT::widen(k_chunk.bits[e]);
                        v_reg[u][n * CHUNK + e] = ELEMENT::widen(v_chunk.bits[e]);
                    }
                }
            }
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                if (r < warp_rows) {  // the same for all lanes, so they meet at the shuffles
                    const int i = (block_row + warp_row + r) % problem.nq;
                    const Keys seen = visible(i, i, length, problem);
                    // ANCHOR: scores
                    float s[UNROLL] = {};
#pragma unroll
                    for (int x = 0; x < COLUMNS / 4; x++) {
                        const Floats q_reg = vector_of(q_smem + (warp_row + r) * HEAD_MAX, lane, x);
#pragma unroll
                        for (int e = 0; e < 4 * UNROLL; e++) {
                            s[e / 4] += q_reg.x[e % 4] * k_reg[e / 4][4 * x + e % 4];
                        }
                    }
                    // ANCHOR_END: scores
                    // ANCHOR: softmax
                    float max = -INFINITY;
#pragma unroll
                    for (int u = 0; u < UNROLL; u++) {
#pragma unroll
                        for (int distance = LANES / 2; distance > 0; distance /= 2) {
                            s[u] += __shfl_xor_sync(0xffffffffu, s[u], distance);
                        }
                        const int j = key + first + u * step;
                        const bool is_seen = seen.begin <= j && j < min(seen.end, keys.end);
                        s[u] = is_seen ? s[u] * problem.scale : -INFINITY;
                        max = fmaxf(max, s[u]);
                    }
                    const float shrink = shrink_of(max_reg[r], max);
                    const float shift = max_reg[r] == -INFINITY ? 0.0f : max_reg[r];
                    float sum = 0.0f;
#pragma unroll
                    for (int u = 0; u < UNROLL; u++) {
                        s[u] = ex2_approx_ftz_f32((s[u] - shift) * LOG2_E);
                        sum += s[u];
                    }
                    sum_reg[r] = sum_reg[r] * shrink + sum;
                    // ANCHOR_END: softmax
                    // ANCHOR: accumulate
#pragma unroll
                    for (int c = 0; c < COLUMNS; c++) {
                        float pv = 0.0f;
#pragma unroll
                        for (int u = 0; u < UNROLL; u++) {
                            pv += s[u] * v_reg[u][c];
                        }
                        o_reg[r][c] = o_reg[r][c] * shrink + pv;
                    }
                    // ANCHOR_END: accumulate
                }
            }
        }
        __syncthreads();  // so that no thread loads the next tile while another still reads this one
    }

    // ANCHOR: merge_groups
    // The groups of lanes of a warp meet by shuffles.
    float* o_smem = reinterpret_cast<float*>(k_smem);  // [warp][ROWS][HEAD_MAX]
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
#pragma unroll
        for (int distance = LANES; distance < 32; distance *= 2) {
            const float shrink = shrink_of(max_reg[r], __shfl_xor_sync(0xffffffffu, max_reg[r], distance));
            sum_reg[r] *= shrink;
            sum_reg[r] += __shfl_xor_sync(0xffffffffu, sum_reg[r], distance);
#pragma unroll
            for (int c = 0; c < COLUMNS; c++) {
                o_reg[r][c] *= shrink;
                o_reg[r][c] += __shfl_xor_sync(0xffffffffu, o_reg[r][c], distance);
            }
        }
        if (threadIdx.x % 32 < LANES) {
            max_smem[warp * ROWS + r] = max_reg[r];
            sum_smem[warp * ROWS + r] = sum_reg[r];
#pragma unroll
            for (int c = 0; c < COLUMNS; c++) {
                vector_of(o_smem + (warp * ROWS + r) * HEAD_MAX, lane, c / 4).x[c % 4] = o_reg[r][c];
            }
        }
    }
    __syncthreads();  // so that no thread reads the sums of a warp before they are stored
    // ANCHOR_END: merge_groups

    // ANCHOR: epilogue
    // The warps that share a row meet in the thread that writes its element.
    for (int x = threadIdx.x; x < block_rows * head_dim; x += blockDim.x) {
        const int row = x / head_dim;
        const int d = x % head_dim;
        float max = -INFINITY;
        float sum = 0.0f;
        float numerator = 0.0f;
        for (int w = 0; w < key_warps; w++) {
            const int slot = (w * row_warps + row / share) * ROWS + row % share;
            const float shrink = shrink_of(max, max_smem[slot]);
            const float weight = max == -INFINITY ? 0.0f : ex2_approx_ftz_f32((max_smem[slot] - max) * LOG2_E);
            sum = sum * shrink + weight * sum_smem[slot];
            numerator = numerator * shrink + weight * o_smem[slot * HEAD_MAX + place(d)];
        }
        const int h = kv_head * problem.group + (block_row + row) / problem.nq, i = (block_row + row) % problem.nq;
        float* o_row = o + b * problem.o.batch + h * problem.o.head + i * problem.o.row + part_index * head_dim;
        o_row[d] = sum == 0.0f ? 0.0f : numerator / sum;
        if (d == 0 && lse != nullptr) {
            const long long query = (static_cast<long long>(b) * problem.heads + h) * problem.nq + i;
            lse[query * problem.splits + part_index] = max + logf(sum);  // log(0) = -inf
        }
    }
    // ANCHOR_END: epilogue
}
// ANCHOR_END: kernel
