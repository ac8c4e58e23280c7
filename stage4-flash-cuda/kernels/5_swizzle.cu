// Swizzled tiles: ldmatrix reads four 8 x 8 tiles in one instruction, and no two rows of a
// tile lie in the same banks.
//
// Idea: rung 4 gathers what a lane holds word by word, v half word by half word, and rows that lie
// D f16 apart share banks. ldmatrix takes 8 rows of 16 bytes and deals them out to the lanes as
// mma.sync wants them; .trans transposes v on the way. Its 8 rows are free of conflicts if they lie
// in different 16 bytes of the 128 of all banks. So vector c of row r is stored at place c ^ r % 8
// of its row (at D = 16, which has two places, at c ^ r / 4 % 2):
//
//     vector   0 1 2 3 4 5 6 7
//     row 0    0 1 2 3 4 5 6 7
//     row 1    1 0 3 2 5 4 7 6
//     row 2    2 3 0 1 6 7 4 5    and so on: a column of 8 rows has each place once
//
// Constants: HEAD_DIM = D, BLOCK_Q queries and BLOCK_KV keys of a tile, THREADS of a block. The
//         host defines them when it compiles the kernel for a head dimension.
// Grid:   x = ceil(nq / BLOCK_Q) * B * H.
// Block:  (THREADS). A warp has 16 queries; lane 4 g + t has rows g and g + 8 of them,
//         shared with 3 neighbours.
// Shared: (BLOCK_Q + 2 * BLOCK_KV) * D * 2 bytes, static.
// Reads:  q once; k and v once per block. Writes: o, lse once; o = 0 and lse = -inf for
//         a query that sees no key.
// Since rung 4: where a vector lies in a tile, and who reads it. The arithmetic
// is the same, bit for bit.
//
// What limits it now: the loads of fragments, and all that is not a product. For each mma.sync
// there are 2.8 wavefronts of shared memory and 11 instructions. Warps wait for each tile, and the
// softmax tests and scales each score.
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
static_assert(HEAD_DIM % 16 == 0 && BLOCK_KV % 16 == 0 && THREADS == 2 * BLOCK_Q, "whole tiles; a warp has 16 queries");

// ANCHOR: place
// The place of a vector of a row. Rows shorter than 128 bytes share their banks
// with 8 / PLACES - 1 others.
template <int ROWS>
__device__ Vector& at(Vector (&tile_smem)[ROWS][VECTORS], int row, int vector) {
    return tile_smem[row][vector ^ row * PLACES / 8 % PLACES];
}
// ANCHOR_END: place

// Copies rows [first, first + ROWS) of a matrix that ends before row `end`; the others are zeros.
template <int ROWS>
__device__ void copy_rows(Vector (&tile_smem)[ROWS][VECTORS], const Vector* matrix, int first, int end) {
#pragma unroll 4
    for (int x = threadIdx.x; x < ROWS * VECTORS; x += THREADS) {
        const int row = first + x / VECTORS;
        const Vector* source = matrix + static_cast<long long>(row) * VECTORS + x % VECTORS;
        at(tile_smem, x / VECTORS, x % VECTORS) = row < end ? *source : Vector{};
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) swizzle(
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
    copy_rows(q_smem, q + matrix * nq * VECTORS, first, nq);
    float o_reg[HEAD_DIM / 8][4] = {};
    float sum_reg[2] = {};  // of rows g and g + 8: this lane's keys
    float max_reg[2] = {-INFINITY, -INFINITY};
    const int key_end = causal ? min(nk, first + BLOCK_Q + (nk - nq)) : nk;
    for (int key = 0; key < key_end; key += BLOCK_KV) {
        copy_rows(k_smem, k + matrix * nk * VECTORS, key, nk);
        copy_rows(v_smem, v + matrix * nk * VECTORS, key, nk);
        __syncthreads();  // so that no thread reads q, k or v before every thread has stored its part
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
        for (int r = 0; r < 2; r++) {
            const int i = first + row + g + 8 * r;
            const int seen = causal ? min(nk, i + 1 + (nk - nq)) : nk;  // query i sees the keys below
            float max = max_reg[r];
            for (int e = 0; e < BLOCK_KV / 4; e++) {
                float& s = s_reg[e / 2][2 * r + e % 2];
                s = key + e / 2 * 8 + 2 * t + e % 2 < seen ? s * scale : -INFINITY;
                max = fmaxf(max, s);
            }
            max = row_max(max);
            const float shift = max == -INFINITY ? 0.0f : max;  // exp(-inf - -inf) would be NaN
            const float shrink = __expf(max_reg[r] - shift);    // factor of earlier sums
            max_reg[r] = max;
            sum_reg[r] *= shrink;
            for (int e = 0; e < BLOCK_KV / 4; e++) {
                float& s = s_reg[e / 2][2 * r + e % 2];
                s = __expf(s - shift);
                sum_reg[r] += s;
            }
            for (int e = 0; e < HEAD_DIM / 4; e++) {
                o_reg[e / 2][2 * r + e % 2] *= shrink;
            }
        }
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
        __syncthreads();  // so that no thread loads the next k or v while another still reads this one
    }
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
            lse[matrix * nq + i] = max_reg[r] + logf(sum);  // log(0) = -inf
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
