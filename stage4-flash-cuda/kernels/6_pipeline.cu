// Pipeline: tiles of k and v travel while others are multiplied, and the softmax does
// only what a score needs.
//
// Idea: rung 5 waits for each tile, tests each score, scales o for each tile, and has two
// instructions for an exponent. Here
//   - cp.async copies as in rung 3: v travels during q k^T, the next k during the softmax and p v;
//   - only a tile that some query of the block does not see whole is masked;
//   - p = 2^(c s - max), with c = scale * log2(e) and max = c s for some earlier s: a
//     multiply-add and ex2. -c s has its maximum where s has its minimum, so for a negative scale
//     the signs of q are changed;
//   - o and the sums are scaled only if a row's maximum has grown by more than ROOM: until then p
//     is at most 2^ROOM, which f16 holds with the same relative precision.
//
// Constants: HEAD_DIM = D, BLOCK_Q queries and BLOCK_KV keys of a tile, THREADS of a block. The
//         host defines them when it compiles the kernel for a head dimension.
// Grid:   x = ceil(nq / BLOCK_Q) * B * H.
// Block:  (THREADS). A warp has 16 queries; lane 4 g + t has rows g and g + 8 of them,
//         shared with 3 neighbours.
// Shared: (BLOCK_Q + 2 * BLOCK_KV) * D * 2 bytes, static.
// Reads:  q once; k and v once per block. Writes: o, lse once; o = 0 and lse = -inf for
//         a query that sees no key.
// p is finite in f16 as long as scores are below 2^27: beyond, c s is rounded by more than 8, and
// p can be above 2^(ROOM + 8). The library takes larger scores.
//
// Since rung 5: when tiles travel, and the softmax.
//
// What limits it now: shared memory, then the number of instructions. An instruction ldmatrix reads
// a fragment of k or v for two mma.sync, so there are 2.8 wavefronts for each. There are 9.6
// instructions for each, half of them for addresses.
//
// arch: compute_80
// launch: grid=4 block=128
// define: HEAD_DIM=64 BLOCK_Q=64 BLOCK_KV=64 THREADS=128
// args: f16[12800]=random f16[16640]=random f16[16640]=random f16[12800]=uninit f32[200]=uninit
// args: i32=100 i32=130 f32=0.125 i32=1
#include "prelude.cuh"

#include "mma.cuh"

struct alignas(16) Vector {
    unsigned x[4];  // 8 f16
};

constexpr int VECTORS = HEAD_DIM / 8;              // vectors of a row
constexpr int PLACES = VECTORS < 8 ? VECTORS : 8;  // vectors of a row that swap places
constexpr float LOG2_E = 1.44269504f;
constexpr float LN_2 = 0.693147181f;
constexpr float LOWEST = -3.40282347e38f;          // of all finite f32
constexpr float ROOM = 8.0f;                       // log2 of the largest p
static_assert(HEAD_DIM % 16 == 0 && BLOCK_KV % 16 == 0 && THREADS == 2 * BLOCK_Q, "whole tiles; a warp has 16 queries");

// The place of a vector of a row. Rows shorter than 128 bytes share their banks
// with 8 / PLACES - 1 others.
template <int ROWS>
__device__ Vector& at(Vector (&tile_smem)[ROWS][VECTORS], int row, int vector) {
    return tile_smem[row][vector ^ row * PLACES / 8 % PLACES];
}

// ANCHOR: copy
// Starts the copy of rows [first, first + ROWS) of a matrix that ends before row `end`; the
// others are zeros. One group.
template <int ROWS>
__device__ void copy_rows(Vector (&tile_smem)[ROWS][VECTORS], const Vector* matrix, int first, int end) {
#pragma unroll 4
    for (int x = threadIdx.x; x < ROWS * VECTORS; x += THREADS) {
        const int row = first + x / VECTORS;
        const Vector* source = matrix + static_cast<long long>(min(row, end - 1)) * VECTORS + x % VECTORS;
        cp_async_cg_shared_global_16(shared_address(&at(tile_smem, x / VECTORS, x % VECTORS)), source, row < end ? 16 : 0);
    }
    cp_async_commit_group();
}
// ANCHOR_END: copy

extern "C" __global__ void __launch_bounds__(THREADS) pipeline(
    const Vector* q,  // [B, H, nq, D] f16
    const Vector* k,  // [B, H, nk, D] f16
    const Vector* v,  // [B, H, nk, D] f16
    Vector* o,        // [B, H, nq, D] f16
    float* lse,       // [B, H, nq] f32, or null
    int nq, int nk, float scale, int causal
) {
    __shared__ Vector q_smem[BLOCK_Q][VECTORS];
    __shared__ Vector k_smem[BLOCK_KV][VECTORS];
    __shared__ Vector v_smem[BLOCK_KV][VECTORS];
    const int tiles = (nq + BLOCK_Q - 1) / BLOCK_Q;
    const long long matrix = blockIdx.x / tiles;     // b * H + h
    const int first = blockIdx.x % tiles * BLOCK_Q;  // first query of the tile
    const int row = threadIdx.x / 32 * 16;           // first query of the warp, in the tile
    const int lane = threadIdx.x % 32;
    const int g = lane / 4;
    const int t = lane % 4;
    const Vector* k_head = k + matrix * nk * VECTORS;
    const Vector* v_head = v + matrix * nk * VECTORS;
    const float factor = fmaxf(fabsf(scale) * LOG2_E, 1e-37f);  // so small, it makes all scores 0, as 0 does
    const unsigned sign = scale < 0.0f ? 0x80008000u : 0u;
    const int key_end = causal ? min(nk, first + BLOCK_Q + (nk - nq)) : nk;
    const int whole = causal ? min(nk, first + 1 + (nk - nq)) : nk;  // each query of the block sees the keys below
    if (key_end > 0) {
        copy_rows(k_smem, k_head, 0, nk);
    }
    for (int x = threadIdx.x; x < BLOCK_Q * VECTORS; x += THREADS) {
        const int i = first + x / VECTORS;
        Vector vector = i < nq ? q[(matrix * nq + i) * VECTORS + x % VECTORS] : Vector{};
        for (unsigned& word : vector.x) {
            word ^= sign;
        }
        at(q_smem, x / VECTORS, x % VECTORS) = vector;
    }
    float o_reg[HEAD_DIM / 8][4] = {};
    float sum_reg[2] = {};  // of rows g and g + 8: this lane's keys
    float max_reg[2] = {LOWEST, LOWEST};  // what is subtracted from the exponents of a row: at most ROOM below their maximum
    for (int key = 0; key < key_end; key += BLOCK_KV) {
        // ANCHOR: wait_for_k
        cp_async_wait_group<0>();
        __syncthreads();  // so that no thread reads q or k before all of it is there, or copies v while another reads it
        copy_rows(v_smem, v_head, key, nk);
        // ANCHOR_END: wait_for_k
        // ANCHOR: scores
        float s_reg[BLOCK_KV / 8][4] = {};
        for (int c = 0; c < VECTORS; c += 2) {
            unsigned q_reg[4];  // 16 rows of q x 16 columns
            ldmatrix_x4(q_reg, shared_address(&at(q_smem, row + lane % 16, c + lane / 16)));
            for (int n = 0; n < BLOCK_KV / 8; n += 2) {
                unsigned k_reg[4];  // 16 rows of k x 16 columns: b0 and b1 of 8 keys, then of the next 8
                ldmatrix_x4(k_reg, shared_address(&at(k_smem, 8 * n + lane / 16 * 8 + lane % 8, c + lane / 8 % 2)));
                mma_m16n8k16(s_reg[n], q_reg, k_reg[0], k_reg[1], s_reg[n]);
                mma_m16n8k16(s_reg[n + 1], q_reg, k_reg[2], k_reg[3], s_reg[n + 1]);
            }
        }
        // ANCHOR_END: scores
        // ANCHOR: next_k
        __syncthreads();  // so that no thread copies the next k while another still reads this one
        copy_rows(k_smem, k_head, key + BLOCK_KV, nk);  // zeros behind the last tile
        // ANCHOR_END: next_k
        if (key + BLOCK_KV > whole) {
            for (int e = 0; e < BLOCK_KV / 2; e++) {
                const int i = first + row + g + e / 2 % 2 * 8;
                const int seen = causal ? min(nk, i + 1 + (nk - nq)) : nk;  // query i sees the keys below
                if (key + e / 4 * 8 + 2 * t + e % 2 >= seen) {
                    s_reg[e / 4][e % 4] = -INFINITY;
                }
            }
        }
        float tile_max_reg[2];
        bool grows = false;
        for (int r = 0; r < 2; r++) {
            float max = -INFINITY;
            for (int e = 0; e < BLOCK_KV / 4; e++) {
                max = fmaxf(max, s_reg[e / 2][2 * r + e % 2]);
            }
            tile_max_reg[r] = factor * row_max(max);
            grows |= tile_max_reg[r] > max_reg[r] + ROOM;
        }
        // ANCHOR: grows
        if (__any_sync(0xffffffffu, grows)) {
            for (int r = 0; r < 2; r++) {
                const float max = fmaxf(max_reg[r], tile_max_reg[r]);
                const float shrink = ex2_approx_ftz_f32(max_reg[r] - max);  // factor of earlier sums
                max_reg[r] = max;
                sum_reg[r] *= shrink;
                for (int e = 0; e < HEAD_DIM / 4; e++) {
                    o_reg[e / 2][2 * r + e % 2] *= shrink;
                }
            }
        }
        // ANCHOR_END: grows
        // ANCHOR: exponent
        for (int e = 0; e < BLOCK_KV / 2; e++) {
            float& s = s_reg[e / 4][e % 4];
            s = ex2_approx_ftz_f32(fmaf(factor, s, -max_reg[e / 2 % 2]));
            sum_reg[e / 2 % 2] += s;
        }
        // ANCHOR_END: exponent
        // ANCHOR: wait_for_v
        cp_async_wait_group<1>();  // v is there; the next k may be on its way
        __syncthreads();  // so that no thread reads v before every thread's part of it is there
        // ANCHOR_END: wait_for_v
        // ANCHOR: accumulate
        for (int j = 0; j < BLOCK_KV; j += 16) {
            const float(&left)[4] = s_reg[j / 8], (&right)[4] = s_reg[j / 8 + 1];
            const unsigned p_reg[4] = {
                cvt_rn_f16x2_f32(left[0], left[1]), cvt_rn_f16x2_f32(left[2], left[3]),
                cvt_rn_f16x2_f32(right[0], right[1]), cvt_rn_f16x2_f32(right[2], right[3]),
            };
            for (int n = 0; n < HEAD_DIM / 8; n += 2) {
                unsigned v_reg[4];  // 16 rows of v x 16 columns: b0 and b1 of 8 columns, then of the next 8
                ldmatrix_x4_trans(v_reg, shared_address(&at(v_smem, j + lane % 16, n + lane / 16)));
                mma_m16n8k16(o_reg[n], p_reg, v_reg[0], v_reg[1], o_reg[n]);
                mma_m16n8k16(o_reg[n + 1], p_reg, v_reg[2], v_reg[3], o_reg[n + 1]);
            }
        }
        // ANCHOR_END: accumulate
    }
    cp_async_wait_group<0>();  // no copy is left behind
    __syncthreads();  // so that no thread writes o over q before every thread has stored its part: there may be no keys
    for (int r = 0; r < 2; r++) {
        const int i = first + row + g + 8 * r;
        const float sum = row_sum(sum_reg[r]);
        const float inverse = sum == 0.0f ? 0.0f : 1.0f / sum;
        for (int n = 0; n < VECTORS; n++) {
            at(q_smem, row + g + 8 * r, n).x[t] =
                cvt_rn_f16x2_f32(o_reg[n][2 * r] * inverse, o_reg[n][2 * r + 1] * inverse);
        }
        if (i < nq && t == 0 && lse != nullptr) {
            lse[matrix * nq + i] = max_reg[r] * LN_2 + logf(sum);  // log(0) = -inf
        }
    }
    __syncwarp();  // so that no lane reads a row of o before the lanes that share it have stored their parts
    for (int x = lane; x < 16 * VECTORS; x += 32) {
        const int i = first + row + x / VECTORS;
        if (i < nq) {
            o[(matrix * nq + i) * VECTORS + x % VECTORS] = at(q_smem, row + x / VECTORS, x % VECTORS);
        }
    }
}
