// Decode on tensor cores, for caches in half precision: several rows of q see the same keys.
//
// Idea: as in 4_mma.cu. Row r of the tile is query r % nq of head r / nq of the group. q and p are
// sums of TERMS numbers of the cache's type, so the result is as near as that of grouped.cu.
// A lane knows where one key of the tile lies, which is read from the page table a tile ahead.
//
// Grid:   x = B * H_kv * splits * ceil(rows of q to a head of k / 16).
// Block:  (128). A warp takes every fourth tile of 16 keys. Lane 4 g + t has rows g and g + 8 of s
//         and o, shared with 3 neighbours.
// Shared: (256 + 32 * TERMS) * (HEAD_MAX + 8) bytes, dynamic; 576 bytes static. At the end of the
//         block the memory of k and v holds o of each warp.
// Reads:  q, lengths, page table or null; k and v once for 16 rows of q. Writes: o, lse of the
//         part; o = 0 and lse = -inf for a row without a visible key.
// Constants: ELEMENT (f16, bf16); HEAD_MAX (64, 128), at least D.
// For 2 rows of q to a head of k or more, D up to 128, and rows of k at multiples of 16 bytes;
// grouped.cu takes all others.
//
// arch: compute_80
// launch: grid=6 block=128 shared=23040
// define: ELEMENT=f16 HEAD_MAX=64
// args: f32[960]=random f16[6400]=random f16[6400]=random i32[2]={80,37} null f32[2880]=uninit
// args: f32[72]=uninit
// args: {{i64=480,80,40}, {i64=1440,240,120}, {i32=1,80,40,0,0}, i32=6,6,2,3,50,f32=0.158}
#include "cache.cuh"
#include "problem.cuh"
#include "tensor_cores.cuh"

constexpr int THREADS = 128;
constexpr int WARPS = THREADS / 32;
constexpr int ROWS = 16;                       // rows of q of a block
constexpr int KEYS = 16;                       // of a tile of a warp
constexpr int STEP = WARPS * KEYS;             // from a tile of a warp to its next
constexpr int CHUNK = Chunk<16>::ELEMENTS;     // elements of a chunk
constexpr int CHUNKS = HEAD_MAX / CHUNK;       // chunks of a row
constexpr int STRIDE = CHUNKS + 1;             // from row to row: the 8 rows that ldmatrix reads lie in different banks
constexpr int EXPONENT = Tensor<ELEMENT>::EXPONENT;
constexpr float LOG2_E = 1.4426950408889634f;
static_assert(CHUNKS % 2 == 0 && 32 % CHUNKS == 0, "an odd stride; a warp copies whole rows");

struct alignas(8) Pair {
    float x[2];
};

using Tile = Chunk<16>[16][STRIDE];         // of q, k or v
using Sums = Pair[ROWS][HEAD_MAX / 2 + 4];  // o of a warp: as large as two tiles

// ANCHOR: copy
// Starts the copy of a tile, of which lane j % 16 knows the offset of row j, negative if there is
// none: zeros there, and from column D on. One group of a warp.
__device__ __forceinline__ void copy_tile(Tile& tile_smem, const Bits* matrix, long long offset, int head_dim) {
    const int first = threadIdx.x % 32 / CHUNKS;
    const int chunk = threadIdx.x % CHUNKS;
#pragma unroll
    for (int j = 0; j < KEYS; j += 32 / CHUNKS) {
        const long long row = __shfl_sync(0xffffffffu, offset, first + j);
        const bool inside = row >= 0 && chunk * CHUNK < head_dim;
        const Bits* source = inside ? matrix + row + chunk * CHUNK : matrix;
        cp_async_cg_shared_global_16(shared_address(&tile_smem[first + j][chunk]), source, inside ? 16 : 0);
    }
    cp_async_commit_group();
}
// ANCHOR_END: copy

// Two raised to an integer from -126 to 127.
__device__ __forceinline__ float power_of_two(int exponent) {
    return __int_as_float((exponent + 127) << 23);
}

// ANCHOR: kernel
extern "C" __global__ void __launch_bounds__(THREADS) grouped_mma(
    const float* q,      // [B, H, nq, D] f32
    const Bits* k,       // [B, H_kv, max_seq, D], or [pages, H_kv, page_size, D]
    const Bits* v,       // the same
    const int* lengths,  // [B] i32
    const int* pages,    // [B, columns] i32, or null
    float* o,            // [B, H, nq, splits, D] f32
    float* lse,          // [B, H, nq, splits] f32, or null
    Problem problem
) {
    extern __shared__ Tile kv_smem[];  // k of warp 0, v of warp 0, k of warp 1, ...
    Tile* q_smem = kv_smem + 2 * WARPS;  // a tile for each term
    __shared__ float unit_smem[ROWS];    // factor of the scores of a row
    __shared__ float max_smem[WARPS][ROWS];
    __shared__ float sum_smem[WARPS][ROWS];
    const int head_dim = problem.cache.head_dim;
    const int kv_heads = problem.cache.kv_heads;
    const int warp = threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    const int g = lane / 4;
    const int t = lane % 4;
    const int all_rows = problem.group * problem.nq;
    const int row_blocks = (all_rows + ROWS - 1) / ROWS;
    const int block_row = blockIdx.x % row_blocks * ROWS;  // first row of the block
    const int block_rows = min(ROWS, all_rows - block_row);
    const int part_index = blockIdx.x / row_blocks % problem.splits;
    const int matrix = blockIdx.x / row_blocks / problem.splits;
    const int b = matrix / kv_heads;
    const int kv_head = matrix % kv_heads;
    const Rows rows(pages, b, kv_head, problem.cache);
    const int length = length_of(lengths, b, problem);
    const Keys keys = part(visible(0, problem.nq - 1, length, problem), part_index, problem.splits);
    Tile &k_smem = kv_smem[2 * warp], &v_smem = kv_smem[2 * warp + 1];

    // Where this lane's key of a tile lies.
    const auto offset_of = [&](int key) { return key + lane % KEYS < keys.end ? rows[key + lane % KEYS] : -1ll; };
    int key = keys.begin + warp * KEYS;
    long long offset = offset_of(key);
    copy_tile(k_smem, k, offset, head_dim);
    copy_tile(v_smem, v, offset, head_dim);
    offset = offset_of(key + STEP);
    // ANCHOR: queries
    // A warp copies every fourth row of q, scaled by a power of two so that its largest element
    // lies in [1, 2) * 2^EXPONENT.
#pragma unroll 2
    for (int first = 0; first < ROWS; first += WARPS) {
        const int r = first + warp;
        const int h = kv_head * problem.group + (block_row + r) / problem.nq, i = (block_row + r) % problem.nq;
        const float* q_row = q + b * problem.q.batch + h * problem.q.head + i * problem.q.row;
        float x[HEAD_MAX / 32];
        float largest = 1e-33f;  // so that both powers of two are normal numbers
#pragma unroll
        for (int e = 0; e < HEAD_MAX / 32; e++) {
            const int d = e / 2 * 64 + 2 * lane + e % 2;
            x[e] = r < block_rows && d < head_dim ? q_row[d] : 0.0f;
            largest = fmaxf(largest, fabsf(x[e]));
        }
        const int exponent = min((__float_as_int(warp_max(largest)) >> 23) - 127, 126 + EXPONENT);
#pragma unroll
        for (int e = 0; e < HEAD_MAX / 32; e += 2) {
            const float factor = power_of_two(EXPONENT - exponent);
            unsigned terms[TERMS];
            terms_of(x[e] * factor, x[e + 1] * factor, terms);
#pragma unroll
            for (int term = 0; term < TERMS; term++) {
                reinterpret_cast<unsigned*>(q_smem[term][r][e * 4 + lane / 4].bits)[t] = terms[term];
            }
        }
        if (lane == 0) {
            unit_smem[r] = problem.scale * power_of_two(exponent - EXPONENT);
        }
    }
    // ANCHOR_END: queries
    __syncthreads();  // so that no warp reads q or its units before every warp has stored its rows
    const float unit_reg[2] = {unit_smem[g], unit_smem[g + 8]};
    Keys seen_reg[2];  // by rows g and g + 8
#pragma unroll
    for (int r = 0; r < 2; r++) {
        const int i = (block_row + g + 8 * r) % problem.nq;
        const Keys seen = visible(i, i, length, problem);
        seen_reg[r] = {seen.begin, min(seen.end, keys.end)};
    }
    float max_reg[2] = {-INFINITY, -INFINITY};
    float sum_reg[2] = {};  // this lane's keys
    float o_reg[CHUNKS][4] = {};

#pragma unroll 1
    for (; key < keys.end; key += STEP) {
        cp_async_wait_group<1>();  // k is there; v may be on its way
        __syncwarp();  // so that no lane reads k before every lane's part of it is there
        float s_reg[2][4] = {};
#pragma unroll
        for (int c = 0; c < CHUNKS; c += 2) {
            unsigned k_reg[4];  // 16 rows of k x 16 columns: b0 and b1 of 8 keys, then of the next 8
            ldmatrix_x4(k_reg, shared_address(&k_smem[lane / 16 * 8 + lane % 8][c + lane / 8 % 2]));
#pragma unroll
            for (int term = 0; term < TERMS; term++) {
                unsigned q_reg[4];
                ldmatrix_x4(q_reg, shared_address(&q_smem[term][lane % 16][c + lane / 16]));
                Tensor<ELEMENT>::mma(s_reg[0], q_reg, k_reg[0], k_reg[1], s_reg[0]);
                Tensor<ELEMENT>::mma(s_reg[1], q_reg, k_reg[2], k_reg[3], s_reg[1]);
            }
        }
        __syncwarp();  // so that no lane copies the next k while another still reads this one
        copy_tile(k_smem, k, offset, head_dim);
        float shrink[2];
#pragma unroll
        for (int r = 0; r < 2; r++) {
            float max = max_reg[r];
#pragma unroll
            for (int e = 0; e < 4; e++) {
                float& s = s_reg[e / 2][2 * r + e % 2];
                const int j = key + e / 2 * 8 + 2 * t + e % 2;
                s = seen_reg[r].begin <= j && j < seen_reg[r].end ? s * unit_reg[r] : -INFINITY;
                max = fmaxf(max, s);
            }
            max = row_max(max);
            // exp(-inf - -inf) is NaN: where nothing has been seen, subtract 0.
            const float shift = max == -INFINITY ? 0.0f : max;
            shrink[r] = ex2_approx_ftz_f32((max_reg[r] - shift) * LOG2_E);
            max_reg[r] = max;
            sum_reg[r] *= shrink[r];
#pragma unroll
            for (int e = 0; e < 4; e++) {
                float& s = s_reg[e / 2][2 * r + e % 2];
                s = power_of_two(EXPONENT) * ex2_approx_ftz_f32((s - shift) * LOG2_E);
                sum_reg[r] += s;
            }
        }
        cp_async_wait_group<1>();  // v is there; the next k may be on its way
        __syncwarp();  // so that no lane reads v before every lane's part of it is there
        unsigned p_reg[TERMS][4];
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const float* s = &s_reg[e / 2][e % 2 * 2];
            unsigned terms[TERMS];
            terms_of(s[0], s[1], terms);
#pragma unroll
            for (int term = 0; term < TERMS; term++) {
                p_reg[term][e] = terms[term];
            }
        }
#pragma unroll
        for (int n = 0; n < CHUNKS; n += 2) {
            unsigned v_reg[4];  // 16 rows of v x 16 columns: b0 and b1 of 8 columns, then of the next 8
            ldmatrix_x4_trans(v_reg, shared_address(&v_smem[lane % 16][n + lane / 16]));
#pragma unroll
            for (int c = 0; c < 2; c++) {
                float pv_reg[4] = {};  // of this tile alone, so that long sums lose fewer digits
#pragma unroll
                for (int term = 0; term < TERMS; term++) {
                    Tensor<ELEMENT>::mma(pv_reg, p_reg[term], v_reg[2 * c], v_reg[2 * c + 1], pv_reg);
                }
#pragma unroll
                for (int e = 0; e < 4; e++) {
                    o_reg[n + c][e] = o_reg[n + c][e] * shrink[e / 2] + pv_reg[e];
                }
            }
        }
        __syncwarp();  // so that no lane copies the next v while another still reads this one
        copy_tile(v_smem, v, offset, head_dim);
        offset = offset_of(key + 2 * STEP);
    }

    cp_async_wait_group<0>();
    __syncwarp();  // so that no lane stores o over k and v before every lane's copies have ended
#pragma unroll
    for (int r = 0; r < 2; r++) {
        const int row = g + 8 * r;
#pragma unroll
        for (int n = 0; n < CHUNKS; n++) {
            reinterpret_cast<Sums&>(k_smem)[row][4 * n + t] = {o_reg[n][2 * r], o_reg[n][2 * r + 1]};
        }
        const float sum = row_sum(sum_reg[r]);
        if (t == 0) {
            max_smem[warp][row] = max_reg[r];
            sum_smem[warp][row] = sum;
        }
    }
    __syncthreads();  // so that no thread reads o of a warp before it is stored
    // ANCHOR: merge
    for (int row = warp; row < block_rows; row += WARPS) {
        float max = -INFINITY;
#pragma unroll
        for (int w = 0; w < WARPS; w++) {
            max = fmaxf(max, max_smem[w][row]);
        }
        float weight[WARPS];
        float sum = 0.0f;
#pragma unroll
        for (int w = 0; w < WARPS; w++) {
            weight[w] = max == -INFINITY ? 0.0f : ex2_approx_ftz_f32((max_smem[w][row] - max) * LOG2_E);
            sum += weight[w] * sum_smem[w][row];
        }
        const float inverse = sum == 0.0f ? 0.0f : 1.0f / sum;
        const int h = kv_head * problem.group + (block_row + row) / problem.nq, i = (block_row + row) % problem.nq;
        float* o_row = o + b * problem.o.batch + h * problem.o.head + i * problem.o.row + part_index * head_dim;
        for (int d = lane; d < head_dim; d += 32) {
            float numerator = 0.0f;
#pragma unroll
            for (int w = 0; w < WARPS; w++) {
                numerator += weight[w] * reinterpret_cast<const Sums&>(kv_smem[2 * w])[row][d / 2].x[d % 2];
            }
            o_row[d] = numerator * inverse;
        }
        if (lane == 0 && lse != nullptr) {
            const long long query = (static_cast<long long>(b) * problem.heads + h) * problem.nq + i;
            lse[query * problem.splits + part_index] = max + logf(sum * power_of_two(-EXPONENT));  // log(0) = -inf
        }
    }
    // ANCHOR_END: merge
}
// ANCHOR_END: kernel
