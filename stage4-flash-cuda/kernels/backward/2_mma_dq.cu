// The gradient by q on tensor cores: a warp owns rows of queries, and ds stays in its registers.
//
// Idea: as in rung 1, with mma.sync. A row of the tile of scores is a query, so ds has the layout
// of c, and rounded to f16 that of a, as dq = ds k wants it. p waits in f16 while dO v^T is
// multiplied: both in f32 beside the sums of dq would take more
// registers than a thread has.
//
// Constants: HEAD_DIM = D, BLOCK_Q queries and BLOCK_KV keys of a tile, THREADS of a block. The
//         host defines them when it compiles the kernel for a head dimension.
// Grid:   x = ceil(nq / BLOCK_Q) * B * H.
// Block:  (THREADS). A warp has BLOCK_Q * 32 / THREADS queries. swizzled.cuh says which rows and
//         columns a lane has.
// Shared: sizeof(Memory), dynamic: (BLOCK_Q + BLOCK_KV) * D * 4 + BLOCK_Q * 8 bytes.
// Reads:  q, dO, lse and delta once; k and v once per block. Writes: dq once; zeros for a query
//         that sees no key.
//
// Since rung 1: f16 and mma.sync; v travels during ds k; powers of 2 in place of exp.
//
// What limits it now: shared memory, whose 1.6 wavefronts for each mma.sync take longer than the
// tensor cores at D = 64. At D = 128 there are 1.9: the sums of dq leave registers for 32 keys a
// tile, so a fragment of q and dO serves half as many products.
//
// arch: compute_80
// launch: grid=2 block=128 shared=50176
// define: HEAD_DIM=64 BLOCK_Q=128 BLOCK_KV=64 THREADS=128
// args: f16[12800]=random f16[16640]=random f16[16640]=random f16[12800]=random
// args: f32[200]=ones f32[200]=random f16[12800]=uninit
// args: i32=100 i32=130 f32=0.125 i32=1
#include "prelude.cuh"

#include "swizzled.cuh"

constexpr int TILES = BLOCK_Q * 32 / THREADS / 16;  // of 16 queries, of a warp

struct Memory {
    Vector own[2][BLOCK_Q * VECTORS];     // q and dO
    Vector other[2][BLOCK_KV * VECTORS];  // k and v
    float rows[2][BLOCK_Q];               // lse and delta
};

extern "C" __global__ void __launch_bounds__(THREADS) mma_dq(
    const Vector* q,      // [B, H, nq, D] f16
    const Vector* k,      // [B, H, nk, D] f16
    const Vector* v,      // [B, H, nk, D] f16
    const Vector* d_o,    // [B, H, nq, D] f16
    const float* lse,     // [B, H, nq] f32
    const float* delta,   // [B, H, nq] f32
    Vector* dq,           // [B, H, nq, D] f16
    int nq, int nk, float scale, int causal
) {
    extern __shared__ __align__(256) unsigned char bytes_smem[];  // so that a step of columns flips no bit of a row's address
    Memory& smem = reinterpret_cast<Memory&>(bytes_smem);
    const int tiles = (nq + BLOCK_Q - 1) / BLOCK_Q;
    const long long matrix = blockIdx.x / tiles;         // b * H + h
    const int first = blockIdx.x % tiles * BLOCK_Q;      // first query of the tile
    const int row = threadIdx.x / 32 * 16 * TILES;       // first query of the warp, in the tile
    const int g = threadIdx.x % 32 / 4;
    const int t = threadIdx.x % 4;
    const float factor = scale * LOG2_E;
    const long long queries = matrix * nq;               // rows before those of this matrix
    const long long keys = matrix * nk * VECTORS;        // vectors before
    copy_tile<BLOCK_Q>(smem.own[0], q + queries * VECTORS, first, nq);
    copy_tile<BLOCK_Q>(smem.own[1], d_o + queries * VECTORS, first, nq);
    copy_tile<BLOCK_KV>(smem.other[1], v + keys, 0, nk);
    for (int x = threadIdx.x; x < BLOCK_Q; x += THREADS) {
        const long long i = queries + min(first + x, nq - 1);  // rows behind the last are not stored
        smem.rows[0][x] = lse[i] * LOG2_E - UNIT_LOG2;
        smem.rows[1][x] = delta[i];
    }
    const unsigned own_lane = a_lane(smem.own[0], row);
    const unsigned other_lane = bt_lane(smem.other[0]);
    const unsigned k_lane = b_lane(smem.other[0]);
    float dq_reg[VECTORS][TILES][4] = {};
    const int key_end = causal ? min(nk, first + BLOCK_Q + (nk - nq)) : nk;
    const int whole = causal ? min(nk, first + 1 + (nk - nq)) : nk;  // each query of the block sees the keys below
    for (int key = 0; key < key_end; key += BLOCK_KV) {
        copy_tile<BLOCK_KV>(smem.other[0], k + keys, key, nk);
        cp_async_wait_group<0>();
        __syncthreads();  // so that no thread reads a row before every thread's part of it is there
        // ANCHOR: gradients
        float s_reg[BLOCK_KV / 8][TILES][4] = {};
        multiply<BLOCK_KV>(s_reg, own_lane, other_lane);
        for (int e = 0; e < BLOCK_KV * TILES / 2; e++) {
            const int w = e / 2 % (2 * TILES);
            float& s = s_reg[e / 4 / TILES][e / 4 % TILES][e % 4];
            s = ex2_approx_ftz_f32(fmaf(factor, s, -smem.rows[0][row + g + 8 * w]));
        }
        if (key + BLOCK_KV > whole) {
            for (int e = 0; e < BLOCK_KV * TILES / 2; e++) {
                const int i = first + row + g + e / 2 % (2 * TILES) * 8;
                const int seen = causal ? min(nk, i + 1 + (nk - nq)) : nk;  // query i sees the keys below
                if (key + e / 4 / TILES * 8 + 2 * t + e % 2 >= seen) {
                    s_reg[e / 4 / TILES][e / 4 % TILES][e % 4] = 0.0f;
                }
            }
        }
        unsigned weight_reg[BLOCK_KV / 16][TILES][4];  // p, then ds
        for (int j = 0; j < BLOCK_KV / 16; j++) {
            round_columns(weight_reg[j], s_reg, 2 * j);
        }
        float dp_reg[BLOCK_KV / 8][TILES][4];  // the sums begin at -delta
        for (int w = 0; w < 2 * TILES; w++) {
            const float delta = smem.rows[1][row + g + 8 * w];
            for (int e = 0; e < BLOCK_KV / 4; e++) {
                dp_reg[e / 2][w / 2][w % 2 * 2 + e % 2] = -delta;
            }
        }
        multiply<BLOCK_KV, TILES, BLOCK_Q * ROW, BLOCK_KV * ROW>(dp_reg, own_lane, other_lane);
        for (int j = 0; j < BLOCK_KV / 16; j++) {
            round_ds(weight_reg[j], dp_reg, 2 * j);
        }
        __syncthreads();  // so that no thread copies the next v while another still reads this one
        copy_tile<BLOCK_KV>(smem.other[1], v + keys, key + BLOCK_KV, nk);  // zeros behind the last
        for (int j = 0; j < BLOCK_KV / 16; j++) {
            accumulate(dq_reg, weight_reg[j], k_lane, 16 * j);
        }
        // ANCHOR_END: gradients
        __syncthreads();  // so that no thread copies the next k while another still reads this one
    }
    cp_async_wait_group<0>();
    __syncthreads();  // so that no thread writes dq over q before all of it is there: there may be no keys
    store_rows(dq + queries * VECTORS, smem.own[0], dq_reg, scale / UNIT, row, first, nq);
}
