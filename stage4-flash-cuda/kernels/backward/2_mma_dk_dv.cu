// The gradients by k and v on tensor cores: two warps share keys, and each has one gradient.
//
// Idea: a row of the tile of scores is a key, as in rung 1, so p^T and ds^T have the layout of c,
// and rounded to f16 that of a: no transposition, and no way through shared memory, before they
// are multiplied. A fragment of q and dO serves as many mma.sync as a warp has tiles of 16 keys,
// and both gradients of 32 keys at D = 128 take 256 registers. So two warps share the keys:
//
//     warp 0:  p^T = exp(scale * k q^T - lse)            dv += p^T dO
//     warp 1:  ds^T = p^T * (v dO^T - delta)             dk += ds^T q
//
// Both run the same two products, on other tiles. Only p^T goes from one to the other, as the
// fragments that lanes hold: stores and loads of 16 bytes, one for 32 mma.sync at D = 128.
//
// Constants: HEAD_DIM = D, BLOCK_Q queries and BLOCK_KV keys of a tile, THREADS of a block. The
//         host defines them when it compiles the kernel for a head dimension.
// Grid:   x = ceil(nk / BLOCK_KV) * B * H.
// Block:  (THREADS). Warps 2 w and 2 w + 1 have the keys of pair w. swizzled.cuh says which rows
//         and columns a lane has.
// Shared: sizeof(Memory), dynamic: (BLOCK_KV + BLOCK_Q) * D * 4 + BLOCK_KV * BLOCK_Q * 2 +
//         BLOCK_Q * 8 bytes.
// Reads:  k and v once; q, dO, lse and delta once per block. Writes: dk and dv once; zeros for a
//         key that no query sees.
//
// Since rung 1: f16 and mma.sync; who has which gradient; powers of 2 in place of exp.
//
// What limits it now: shared memory, with 1.5 wavefronts for each mma.sync at D = 64 and 1.8 at
// D = 128. Neither gradient leaves registers for more keys of a warp.
//
// arch: compute_80
// launch: grid=4 block=128 shared=57600
// define: HEAD_DIM=64 BLOCK_Q=32 BLOCK_KV=128 THREADS=128
// args: f16[12800]=random f16[16640]=random f16[16640]=random f16[12800]=random
// args: f32[200]=ones f32[200]=random f16[16640]=uninit f16[16640]=uninit
// args: i32=100 i32=130 f32=0.125 i32=1
#include "prelude.cuh"

#include "swizzled.cuh"

constexpr int PAIRS = THREADS / 64;            // of warps
constexpr int TILES = BLOCK_KV / PAIRS / 16;   // of 16 keys, of a pair

struct Memory {
    Vector own[2][BLOCK_KV * VECTORS];    // k and v
    Vector other[2][BLOCK_Q * VECTORS];   // q and dO
    Vector p[PAIRS][BLOCK_Q / 16][TILES][32];  // a fragment a of each lane
    float rows[2][BLOCK_Q];               // lse and delta
};

extern "C" __global__ void __launch_bounds__(THREADS) mma_dk_dv(
    const Vector* q,      // [B, H, nq, D] f16
    const Vector* k,      // [B, H, nk, D] f16
    const Vector* v,      // [B, H, nk, D] f16
    const Vector* d_o,    // [B, H, nq, D] f16
    const float* lse,     // [B, H, nq] f32
    const float* delta,   // [B, H, nq] f32
    Vector* dk,           // [B, H, nk, D] f16
    Vector* dv,           // [B, H, nk, D] f16
    int nq, int nk, float scale, int causal
) {
    extern __shared__ __align__(256) unsigned char bytes_smem[];  // so that a step of columns flips no bit of a row's address
    Memory& smem = reinterpret_cast<Memory&>(bytes_smem);
    const int tiles = (nk + BLOCK_KV - 1) / BLOCK_KV;
    const long long matrix = blockIdx.x / tiles;         // b * H + h
    const int first = blockIdx.x % tiles * BLOCK_KV;     // first key of the tile
    const int pair = threadIdx.x / 64;
    const int own = threadIdx.x / 32 % 2;                // 0: k, q, dO and dv; 1: v, dO, q and dk
    const int row = pair * 16 * TILES;                   // first key of the pair, in the tile
    const int lane = threadIdx.x % 32;
    const int g = lane / 4;
    const int t = lane % 4;
    const float factor = scale * LOG2_E;
    const long long queries = matrix * nq;               // rows before those of this matrix
    const long long keys = matrix * nk * VECTORS;        // vectors before
    copy_tile<BLOCK_KV>(smem.own[0], k + keys, first, nk);
    copy_tile<BLOCK_KV>(smem.own[1], v + keys, first, nk);
    const unsigned own_lane = a_lane(smem.own[own], row);
    const unsigned first_lane = bt_lane(smem.other[own]);
    const unsigned second_lane = b_lane(smem.other[1 - own]);
    Vector(&p_smem)[BLOCK_Q / 16][TILES][32] = smem.p[pair];
    float sum_reg[VECTORS][TILES][4] = {};  // of dv or dk
    // Query i sees the keys j <= i + nk - nq: the first that sees key j is j - (nk - nq).
    const int begin = causal ? max(0, first - (nk - nq)) : 0;
    const int whole = causal ? first + BLOCK_KV - 1 - (nk - nq) : 0;  // queries from here on see all keys of the block
    for (int query = begin; query < nq; query += BLOCK_Q) {
        copy_tile<BLOCK_Q>(smem.other[0], q + queries * VECTORS, query, nq);
        copy_tile<BLOCK_Q>(smem.other[1], d_o + queries * VECTORS, query, nq);
        for (int x = threadIdx.x; x < BLOCK_Q; x += THREADS) {
            const bool exists = query + x < nq;
            smem.rows[0][x] = exists ? lse[queries + query + x] * LOG2_E - UNIT_LOG2 : INFINITY;  // so that p = 0
            smem.rows[1][x] = exists ? delta[queries + query + x] : 0.0f;
        }
        cp_async_wait_group<0>();
        __syncthreads();  // so that no thread reads a row before every thread's part of it is there
        // ANCHOR: gradients
        float s_reg[BLOCK_Q / 8][TILES][4] = {};  // k q^T, or v dO^T
        multiply<BLOCK_Q>(s_reg, own_lane, first_lane);
        unsigned weight_reg[BLOCK_Q / 16][TILES][4];  // p^T, or ds^T
        if (own == 0) {
            for (int e = 0; e < BLOCK_Q * TILES / 2; e++) {
                const int x = e / 4 / TILES * 8 + 2 * t + e % 2;
                float& s = s_reg[e / 4 / TILES][e / 4 % TILES][e % 4];
                s = ex2_approx_ftz_f32(fmaf(factor, s, -smem.rows[0][x]));
                const int seeing = first + row + g + e / 2 % (2 * TILES) * 8 - (nk - nq);  // queries from here on see the key
                if (query < whole && query + x < seeing) {
                    s = 0.0f;
                }
            }
            for (int j = 0; j < BLOCK_Q / 16; j++) {
                round_columns(weight_reg[j], s_reg, 2 * j);
                for (int m = 0; m < TILES; m++) {
                    p_smem[j][m][lane] = reinterpret_cast<Vector&>(weight_reg[j][m]);
                }
            }
        }
        __syncthreads();  // so that no lane reads p before the other warp's lane has stored it
        if (own == 1) {
            for (int e = 0; e < BLOCK_Q * TILES / 2; e++) {
                s_reg[e / 4 / TILES][e / 4 % TILES][e % 4] -= smem.rows[1][e / 4 / TILES * 8 + 2 * t + e % 2];
            }
            for (int j = 0; j < BLOCK_Q / 16; j++) {
                for (int m = 0; m < TILES; m++) {
                    reinterpret_cast<Vector&>(weight_reg[j][m]) = p_smem[j][m][lane];
                }
                round_ds(weight_reg[j], s_reg, 2 * j);
            }
        }
        for (int j = 0; j < BLOCK_Q / 16; j++) {
            accumulate(sum_reg, weight_reg[j], second_lane, 16 * j);
        }
        // ANCHOR_END: gradients
        __syncthreads();  // so that no thread copies the next queries while another still reads these
    }
    cp_async_wait_group<0>();
    __syncthreads();  // so that no thread writes a gradient over k or v before all of it is there: there may be no queries
    if (own == 0) {
        store_rows(dv + keys, smem.own[0], sum_reg, 1.0f / UNIT, row, first, nk);
    } else {
        store_rows(dk + keys, smem.own[1], sum_reg, scale / UNIT, row, first, nk);
    }
}
