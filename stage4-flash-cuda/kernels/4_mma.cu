// Tensor cores: a warp multiplies a 16 x 16 tile by a 16 x 8 tile in one instruction.
//
// Idea: in rung 3 a warp's instruction has 32 products. mma.sync has 2048. Its tiles are of
// f16, and its sums are f32. They are spread over the lanes' registers, as mma.cuh says. A
// warp has 16 queries. It computes s = q k^T, rounds p = exp(s - max) to f16, and multiplies
// by v. The lane that holds an element of s is the one from which the next product takes p,
// so p stays in registers.
//
// Constants: HEAD_DIM = D, BLOCK_Q queries and BLOCK_KV keys of a tile, THREADS of a block. The
//         host defines them when it compiles the kernel for a head dimension.
// Grid:   x = ceil(nq / BLOCK_Q) * B * H.
// Block:  (THREADS). A warp has 16 queries; lane 4 g + t has rows g and g + 8 of them,
//         shared with 3 neighbours.
// Shared: (BLOCK_Q + 2 * BLOCK_KV) * D * 2 bytes, static.
// Reads:  q once; k and v once per block. Writes: o, lse once; o = 0 and lse = -inf for
//         a query that sees no key.
// Since rung 3: tensors in half precision, and who multiplies: o is scaled first, and the products
// add to it. Tiles are copied as in rung 2, without cp.async.
//
// What limits it now: shared memory. A lane gathers its elements by words of two f16, and of
// v one by one. At D = 128 rows lie 256 bytes apart: 8 rows of k, from which a warp loads at
// once, share their banks. 18.6 wavefronts for each mma.sync, which takes the tensor cores
// of an A100 as long as 2.
//
// arch: compute_80
// launch: grid=4 block=128
// define: HEAD_DIM=64 BLOCK_Q=64 BLOCK_KV=64 THREADS=128
// args: f16[12800]=random f16[16640]=random f16[16640]=random f16[12800]=uninit f32[200]=uninit
// args: i32=100 i32=130 f32=0.125 i32=1
#include "prelude.cuh"

#include "mma.cuh"

using Half = unsigned short;  // the bits of an f16

struct alignas(16) Vector {
    unsigned x[4];  // 8 f16 in 4 words: the compiler moves a member at a time
};

constexpr int VECTORS = HEAD_DIM / 8;  // vectors of a row
static_assert(HEAD_DIM % 16 == 0 && BLOCK_KV % 16 == 0 && THREADS == 2 * BLOCK_Q, "whole tiles; a warp has 16 queries");

// Copies rows [first, first + ROWS) of a matrix that ends before row `end`; the others are zeros.
template <int ROWS>
__device__ void copy_rows(Half (&tile_smem)[ROWS][HEAD_DIM], const Vector* matrix, int first, int end) {
#pragma unroll 4
    for (int x = threadIdx.x; x < ROWS * VECTORS; x += THREADS) {
        const int row = first + x / VECTORS;
        const Vector* source = matrix + static_cast<long long>(row) * VECTORS + x % VECTORS;
        reinterpret_cast<Vector&>(tile_smem[x / VECTORS][x % VECTORS * 8]) = row < end ? *source : Vector{};
    }
}

// Two f16 that lie side by side.
__device__ unsigned pair(const Half& first) {
    return reinterpret_cast<const unsigned&>(first);
}

// Two f16 that lie elsewhere.
__device__ unsigned pair(Half low, Half high) {
    return low | static_cast<unsigned>(high) << 16;
}

extern "C" __global__ void __launch_bounds__(THREADS) mma(
    const Vector* q,  // [B, H, nq, D] f16
    const Vector* k,  // [B, H, nk, D] f16
    const Vector* v,  // [B, H, nk, D] f16
    Vector* o,        // [B, H, nq, D] f16
    float* lse,       // [B, H, nq] f32, or null
    int nq, int nk, float scale, int causal
) {
    __shared__ alignas(16) Half q_smem[BLOCK_Q][HEAD_DIM];
    __shared__ alignas(16) Half k_smem[BLOCK_KV][HEAD_DIM];
    __shared__ alignas(16) Half v_smem[BLOCK_KV][HEAD_DIM];
    const int tiles = (nq + BLOCK_Q - 1) / BLOCK_Q;
    const long long matrix = blockIdx.x / tiles;     // b * H + h
    const int first = blockIdx.x % tiles * BLOCK_Q;  // first query of the tile
    const int row = threadIdx.x / 32 * 16;           // first query of the warp, in the tile
    const int g = threadIdx.x % 32 / 4;
    const int t = threadIdx.x % 4;
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
        for (int d = 2 * t; d < HEAD_DIM; d += 16) {
            const unsigned q_reg[4] = {
                pair(q_smem[row + g][d]), pair(q_smem[row + g + 8][d]),
                pair(q_smem[row + g][d + 8]), pair(q_smem[row + g + 8][d + 8]),
            };
            for (int n = 0; n < BLOCK_KV / 8; n++) {
                const Half* row_smem = &k_smem[8 * n + g][d];
                mma_m16n8k16(s_reg[n], q_reg, pair(row_smem[0]), pair(row_smem[8]), s_reg[n]);
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
            for (int n = 0; n < HEAD_DIM / 8; n++) {
                const Half* column = &v_smem[j + 2 * t][8 * n + g];
                const unsigned v0 = pair(column[0], column[HEAD_DIM]);
                const unsigned v1 = pair(column[8 * HEAD_DIM], column[9 * HEAD_DIM]);
                mma_m16n8k16(o_reg[n], p_reg, v0, v1, o_reg[n]);
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
        for (int n = 0; n < HEAD_DIM / 8; n++) {
            reinterpret_cast<unsigned&>(q_smem[row + g + 8 * r][8 * n + 2 * t]) =
                cvt_rn_f16x2_f32(o_reg[n][2 * r] * inverse, o_reg[n][2 * r + 1] * inverse);
        }
        if (i < nq && t == 0 && lse != nullptr) {
            lse[matrix * nq + i] = max_reg[r] + logf(sum);  // log(0) = -inf
        }
    }
    __syncwarp();  // so that no lane reads a row of o before the lanes that share it have stored their parts
    for (int x = threadIdx.x % 32; x < 16 * VECTORS; x += 32) {
        const int i = first + row + x / VECTORS;
        if (i < nq) {
            o[(matrix * nq + i) * VECTORS + x % VECTORS] =
                reinterpret_cast<const Vector&>(q_smem[row + x / VECTORS][x % VECTORS * 8]);
        }
    }
}
