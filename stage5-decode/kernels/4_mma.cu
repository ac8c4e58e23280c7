// Tensor cores: up to 16 heads of q that share a head of k and v are the rows of one tile.
//
// Idea: mma.sync multiplies 16 rows of q by k, so a whole group costs as much as one head. Tensor
// cores take f16, but q and p are f32: each is a sum of two f16, and both are multiplied by the
// same fragment of k or v. A warp takes every fourth tile of 16 keys, keeps a softmax of its own,
// and copies its tiles itself: v is on its way while it multiplies k, and the next k while it
// multiplies v. At the end the warps add up their o in shared memory.
//
// Constants: HEAD_MAX (64, 128), at least D. Columns from D on are zeros.
// Grid:   x = B * H_kv * ceil(group / 16) * nq * splits.
// Block:  (128). Lane 4 g + t has rows g and g + 8 of s and o, shared with 3 neighbours.
// Shared: 320 * (HEAD_MAX + 8) + 512 bytes, static. o of a warp replaces its k and v at the end.
// Reads:  q, lengths; k and v of the part once for 16 heads. Writes: parts, parts_lse once, for
//         combine.cu; 0 and -inf for a part without a key.
// q must be finite in f16, at most 65504; below 1/8 its error is up to 2^-25. The library scales q.
// Since rung 3: k and v are f16, tensor cores multiply, a block has up to 16 heads.
// What limits it now: device memory, and for short sequences the launches of this kernel and of
// combine.cu. There are 7 instructions and 3.2 wavefronts of shared memory for each mma.sync: on an
// H100 the wavefronts take two thirds of the time in which k and v arrive.
//
// arch: compute_80
// launch: grid=12 block=128
// define: HEAD_MAX=64
// args: f32[480]=random f16[12800]=random f16[12800]=random i32[2]={80,37} f32[1440]=uninit
// args: f32[36]=uninit
// args: i32=6 i32=3 i32=1 i32=80 i32=40 f32=0.158 i32=3
#include "prelude.cuh"

#include "stage4-flash-cuda/mma.cuh"

struct alignas(16) Vector {
    unsigned x[4];  // 8 f16
};

struct alignas(8) Pair {
    float x[2];
};

constexpr int THREADS = 128;
constexpr int WARPS = THREADS / 32;
constexpr int ROWS = 16;               // heads of q that a block serves
constexpr int KEYS = 16;               // of a tile of a warp
constexpr int STEP = WARPS * KEYS;     // from a tile of a warp to its next
constexpr int VECTORS = HEAD_MAX / 8;  // vectors of a row
constexpr int STRIDE = VECTORS + 1;    // from row to row: the 8 rows that ldmatrix reads lie in different banks
constexpr float LARGEST = 32768.0f;    // p: so large that small ones keep their digits in f16
static_assert(VECTORS % 2 == 0 && 32 % VECTORS == 0, "an odd stride; a warp copies whole rows");

using Tile = Vector[16][STRIDE];           // of q, k or v
using Sums = Pair[ROWS][HEAD_MAX / 2 + 4];  // o of a warp: as large as two tiles

// Starts the copy of a tile from row `key` on; zeros from row `end` and from column D on. A warp
// copies a tile, as one group.
__device__ void copy_tile(Tile& tile_smem, const Vector* matrix, int key, int end, int vectors) {
    const int first = threadIdx.x % 32 / VECTORS;
    const int vector = threadIdx.x % VECTORS;
    const Vector* source = matrix + static_cast<long long>(key + first) * vectors + vector;
    const int left = vector < vectors ? end - key - first : 0;
    for (int j = 0; j < KEYS; j += 32 / VECTORS) {
        const int bytes = j < left ? 16 : 0;
        cp_async_cg_shared_global_16(shared_address(&tile_smem[first + j][vector]), source + j * vectors, bytes);
    }
    cp_async_commit_group();
}

// Two values x, each as high + low: what f16 leaves of x is an f16 again, to 22 binary digits.
__device__ void halves(float x0, float x1, unsigned& high, unsigned& low) {
    high = cvt_rn_f16x2_f32(x0, x1);
    low = cvt_rn_f16x2_f32(x0 - cvt_f32_f16(high & 0xffffu), x1 - cvt_f32_f16(high >> 16));
}

extern "C" __global__ void __launch_bounds__(THREADS) mma(
    const float* q,         // [B, H, nq, D] f32
    const Vector* k_cache,  // [B, H_kv, max_seq, D] f16
    const Vector* v_cache,  // [B, H_kv, max_seq, D] f16
    const int* lengths,     // [B] i32
    float* parts,           // [B, H, nq, splits, D] f32
    float* parts_lse,       // [B, H, nq, splits] f32
    int heads, int group,   // H, H / H_kv
    int nq, int max_seq,
    int head_dim,           // D, a multiple of 8
    float scale, int splits
) {
    __shared__ Tile q_smem[2];  // high, low
    __shared__ Tile kv_smem[WARPS][2];
    __shared__ float max_smem[WARPS][ROWS];
    __shared__ float sum_smem[WARPS][ROWS];
    const int part = blockIdx.x % splits;
    const int i = blockIdx.x / splits % nq;
    const int sets = (group + ROWS - 1) / ROWS;                 // of up to 16 heads, in a group
    const int set = blockIdx.x / splits / nq % sets;
    const long long kv_head = blockIdx.x / splits / nq / sets;  // b * H_kv + head of k and v
    const long long first_head = kv_head * group + set * ROWS;  // b * H + the first head of q
    const int own = min(ROWS, group - set * ROWS);              // valid heads of q in this block
    const int keys = max(0, lengths[kv_head / (heads / group)] - nq + i + 1);  // that the queries see
    const int size = (keys + splits - 1) / splits;
    const int end = min(keys, (part + 1) * size);
    const int warp = threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    const int g = lane / 4;
    const int t = lane % 4;
    const int vectors = head_dim / 8;
    const Vector* k = k_cache + kv_head * max_seq * vectors;
    const Vector* v = v_cache + kv_head * max_seq * vectors;
    Tile &k_smem = kv_smem[warp][0], &v_smem = kv_smem[warp][1];
    int key = part * size + warp * KEYS;
    copy_tile(k_smem, k, key, end, vectors);
    copy_tile(v_smem, v, key, end, vectors);
    for (int x = threadIdx.x; x < ROWS * HEAD_MAX / 2; x += THREADS) {
        const int r = x / (HEAD_MAX / 2);
        const int d = x % (HEAD_MAX / 2) * 2;
        const float* source = q + ((first_head + r) * nq + i) * head_dim + d;
        const bool inside = r < own && d < head_dim;
        unsigned &high = q_smem[0][r][d / 8].x[d % 8 / 2], &low = q_smem[1][r][d / 8].x[d % 8 / 2];
        halves(inside ? source[0] : 0.0f, inside ? source[1] : 0.0f, high, low);
    }
    __syncthreads();  // so that no warp reads q before every thread has stored its part

    float o_reg[VECTORS][4] = {};
    float sum_reg[2] = {};  // of rows g and g + 8: this lane's keys
    float max_reg[2] = {-INFINITY, -INFINITY};
    for (; key < end; key += STEP) {
        cp_async_wait_group<1>();  // k is there; v may be on its way
        __syncwarp();  // so that no lane reads k before every lane's part of it is there
        // ANCHOR: scores
        float s_reg[2][4] = {};
        for (int c = 0; c < VECTORS; c += 2) {
            unsigned k_reg[4];  // 16 rows of k x 16 columns: b0 and b1 of 8 keys, then of the next 8
            ldmatrix_x4(k_reg, shared_address(&k_smem[lane / 16 * 8 + lane % 8][c + lane / 8 % 2]));
            for (int half = 0; half < 2; half++) {
                unsigned q_reg[4];
                ldmatrix_x4(q_reg, shared_address(&q_smem[half][lane % 16][c + lane / 16]));
                mma_m16n8k16(s_reg[0], q_reg, k_reg[0], k_reg[1], s_reg[0]);
                mma_m16n8k16(s_reg[1], q_reg, k_reg[2], k_reg[3], s_reg[1]);
            }
        }
        // ANCHOR_END: scores
        __syncwarp();  // so that no lane copies the next k while another still reads this one
        copy_tile(k_smem, k, key + STEP, end, vectors);
        float shrink[2];
        for (int r = 0; r < 2; r++) {
            float max = max_reg[r];
            for (int e = 0; e < 4; e++) {
                float& s = s_reg[e / 2][2 * r + e % 2];
                s = key + e / 2 * 8 + 2 * t + e % 2 < end ? s * scale : -INFINITY;
                max = fmaxf(max, s);
            }
            max = row_max(max);  // finite: the tile has a key
            shrink[r] = __expf(max_reg[r] - max);
            max_reg[r] = max;
            sum_reg[r] *= shrink[r];
            for (int e = 0; e < 4; e++) {
                float& s = s_reg[e / 2][2 * r + e % 2];
                s = LARGEST * __expf(s - max);
                sum_reg[r] += s;
            }
        }
        cp_async_wait_group<1>();  // v is there; the next k may be on its way
        __syncwarp();  // so that no lane reads v before every lane's part of it is there
        // ANCHOR: accumulate
        unsigned p_reg[2][4];  // high, low
        for (int e = 0; e < 4; e++) {
            const float* s = &s_reg[e / 2][e % 2 * 2];
            halves(s[0], s[1], p_reg[0][e], p_reg[1][e]);
        }
        for (int n = 0; n < VECTORS; n += 2) {
            unsigned v_reg[4];  // 16 rows of v x 16 columns: b0 and b1 of 8 columns, then of the next 8
            ldmatrix_x4_trans(v_reg, shared_address(&v_smem[lane % 16][n + lane / 16]));
            for (int c = 0; c < 2; c++) {
                float pv_reg[4] = {};  // of this tile alone, so that long sums lose fewer digits
                for (int half = 0; half < 2; half++) {
                    mma_m16n8k16(pv_reg, p_reg[half], v_reg[2 * c], v_reg[2 * c + 1], pv_reg);
                }
                for (int e = 0; e < 4; e++) {
                    o_reg[n + c][e] = o_reg[n + c][e] * shrink[e / 2] + pv_reg[e];
                }
            }
        }
        // ANCHOR_END: accumulate
        __syncwarp();  // so that no lane copies the next v while another still reads this one
        copy_tile(v_smem, v, key + STEP, end, vectors);
    }

    cp_async_wait_group<0>();
    __syncwarp();  // so that no lane stores o over k and v before every lane's copies have ended
    for (int r = 0; r < 2; r++) {
        const int row = g + 8 * r;
        for (int n = 0; n < VECTORS; n++) {
            reinterpret_cast<Sums&>(kv_smem[warp])[row][4 * n + t] = {o_reg[n][2 * r], o_reg[n][2 * r + 1]};
        }
        const float sum = row_sum(sum_reg[r]);
        if (t == 0) {
            max_smem[warp][row] = max_reg[r];
            sum_smem[warp][row] = sum;
        }
    }
    __syncthreads();  // so that no thread reads o of a warp before it is stored
    for (int r = warp; r < own; r += WARPS) {
        float max = -INFINITY;
        for (int w = 0; w < WARPS; w++) {
            max = fmaxf(max, max_smem[w][r]);
        }
        float weight[WARPS];
        float sum = 0.0f;
        for (int w = 0; w < WARPS; w++) {
            weight[w] = max == -INFINITY ? 0.0f : __expf(max_smem[w][r] - max);
            sum += weight[w] * sum_smem[w][r];
        }
        const float inverse = sum == 0.0f ? 0.0f : 1.0f / sum;
        const long long row = ((first_head + r) * nq + i) * splits + part;
        for (int d = lane; d < head_dim; d += 32) {
            float o = 0.0f;
            for (int w = 0; w < WARPS; w++) {
                o += weight[w] * reinterpret_cast<const Sums&>(kv_smem[w])[r][d / 2].x[d % 2];
            }
            parts[row * head_dim + d] = o * inverse;
        }
        if (lane == 0) {
            parts_lse[row] = max + logf(sum / LARGEST);  // log(0) = -inf
        }
    }
}
