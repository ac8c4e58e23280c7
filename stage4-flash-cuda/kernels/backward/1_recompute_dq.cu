// The gradient by q: a block owns a tile of queries, and the keys pass by.
//
// Idea: as in 1_recompute_dk_dv.cu, with the sides exchanged. For a query i and a key j:
//
//     p = exp(scale * q . k - lse)        dp = dO . v        ds = p * (dp - delta)
//     dq = scale * sum over j of ds k
//
// Constants: HEAD_DIM = D, BLOCK_Q queries and BLOCK_KV keys of a tile, THREADS of a block. The
//         host defines them when it compiles the kernel for a head dimension.
// Grid:   x = ceil(nq / BLOCK_Q) * B * H.
// Block:  (THREADS). tile.cuh says which queries and keys of a tile a thread has.
// Shared: sizeof(Memory), dynamic: ((BLOCK_Q + BLOCK_KV) * 8 * (D / 4 | 1) +
//         BLOCK_Q * (BLOCK_KV | 16)) * 4 bytes.
// Reads:  q, dO, lse and delta once; k and v once per block. Writes: dq once; zeros for a query
//         that sees no key.
//
// What limits it now: the issue of instructions, of which 82% are multiply-adds at D = 64. Two of
// the three products are those of 1_recompute_dk_dv.cu, computed again.
//
// launch: grid=4 block=128 shared=90112
// define: HEAD_DIM=64 BLOCK_Q=64 BLOCK_KV=64 THREADS=128
// args: f32[12800]=random f32[16640]=random f32[16640]=random f32[12800]=random
// args: f32[200]=ones f32[200]=random f32[12800]=uninit
// args: i32=100 i32=130 f32=0.125 i32=1
#include "prelude.cuh"

#include "tile.cuh"

constexpr int ROWS = BLOCK_Q / TY;      // queries of a thread
constexpr int COLUMNS = BLOCK_KV / TX;  // keys of a thread

struct Memory {
    Rows<BLOCK_Q> q, d_o;
    Rows<BLOCK_KV> k, v;
    Weights<BLOCK_Q, BLOCK_KV> weights;  // ds
};

extern "C" __global__ void __launch_bounds__(THREADS) recompute_dq(
    const Vector* q,      // [B, H, nq, D] f32
    const Vector* k,      // [B, H, nk, D] f32
    const Vector* v,      // [B, H, nk, D] f32
    const Vector* d_o,    // [B, H, nq, D] f32
    const float* lse,     // [B, H, nq] f32
    const float* delta,   // [B, H, nq] f32
    Vector* dq,           // [B, H, nq, D] f32
    int nq, int nk, float scale, int causal
) {
    extern __shared__ __align__(16) unsigned char bytes_smem[];
    Memory& smem = reinterpret_cast<Memory&>(bytes_smem);
    const int tiles = (nq + BLOCK_Q - 1) / BLOCK_Q;
    const long long matrix = blockIdx.x / tiles;     // b * H + h
    const int first = blockIdx.x % tiles * BLOCK_Q;  // first query of the tile
    const long long queries = matrix * nq;           // rows before those of this matrix
    const long long keys = matrix * nk * CHUNKS;     // vectors before
    load<BLOCK_Q>(smem.q, q + queries * CHUNKS, first, nq);
    load<BLOCK_Q>(smem.d_o, d_o + queries * CHUNKS, first, nq);
    float lse_reg[ROWS];
    float delta_reg[ROWS];
    for (int r = 0; r < ROWS; r++) {
        const int i = min(first + ty() + TY * r, nq - 1);  // rows behind the last are not stored
        lse_reg[r] = lse[queries + i];
        delta_reg[r] = delta[queries + i];
    }
    Vector dq_reg[ROWS][PIECES] = {};
    const int key_end = causal ? min(nk, first + BLOCK_Q + (nk - nq)) : nk;
    for (int key = 0; key < key_end; key += BLOCK_KV) {
        load<BLOCK_KV>(smem.k, k + keys, key, nk);
        load<BLOCK_KV>(smem.v, v + keys, key, nk);
        __syncthreads();  // so that no thread reads a row before every thread has stored its part
        float s_reg[ROWS][COLUMNS] = {};
        multiply(s_reg, smem.q, smem.k);
        float dp_reg[ROWS][COLUMNS] = {};
        multiply(dp_reg, smem.d_o, smem.v);
        for (int r = 0; r < ROWS; r++) {
            const int i = first + ty() + TY * r;
            const int seen = causal ? min(nk, i + 1 + (nk - nq)) : nk;  // query i sees the keys below
            for (int n = 0; n < COLUMNS; n++) {
                const int x = tx() + TX * n;
                const float p = key + x < seen ? __expf(s_reg[r][n] * scale - lse_reg[r]) : 0.0f;
                smem.weights[ty() + TY * r][x] = p * (dp_reg[r][n] - delta_reg[r]);
            }
        }
        __syncwarp();  // so that no lane reads a row of ds before the lanes that share it have stored their parts
        accumulate<ROWS, BLOCK_KV>(dq_reg, smem.weights, smem.k);
        __syncthreads();  // so that no thread loads the next keys while another still reads these
    }
    store(dq + queries * CHUNKS, dq_reg, scale, first, nq);
}
