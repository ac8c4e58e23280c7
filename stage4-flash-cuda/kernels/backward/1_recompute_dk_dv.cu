// The gradients by k and v: a block owns a tile of keys, and the queries pass by.
//
// Idea: the forward pass kept no scores, but lse. Each tile of weights p is computed again, with no
// maximum and no sum to keep track of, since lse has both. For a query i and a key j:
//
//     p = exp(scale * q . k - lse)        dp = dO . v        ds = p * (dp - delta)
//     dv = sum over i of p dO             dk = scale * sum over i of ds q
//
// [Dao 2023, algorithm 2; delta is from row_dots.cu.] One block sums a gradient, in one order, so
// it has the same bits in every run. dq is a sum over keys, to which all blocks would have to add.
// A second kernel, 1_recompute_dq.cu, computes it, and p and dp again: the two have seven products
// where five are needed, and no atomic operation.
//
// Constants: HEAD_DIM = D, BLOCK_Q queries and BLOCK_KV keys of a tile, THREADS of a block. The
//         host defines them when it compiles the kernel for a head dimension.
// Grid:   x = ceil(nk / BLOCK_KV) * B * H.
// Block:  (THREADS). tile.cuh says which keys and queries of a tile a thread has.
// Shared: sizeof(Memory), dynamic: ((BLOCK_Q + BLOCK_KV) * 8 * (D / 4 | 1) +
//         BLOCK_KV * (BLOCK_Q | 16) + 2 * BLOCK_Q) * 4 bytes.
// Reads:  k and v once; q, dO, lse and delta once per block. Writes: dk and dv once; zeros for a
//         key that no query sees.
//
// What limits it now: the issue of instructions. At D = 64, 83% of them are multiply-adds. A
// thread's rectangle cannot grow: 254 registers hold it and the two gradients. An instruction of
// the tensor cores has 64 times as many products.
//
// launch: grid=6 block=128 shared=90624
// define: HEAD_DIM=64 BLOCK_Q=64 BLOCK_KV=64 THREADS=128
// args: f32[12800]=random f32[16640]=random f32[16640]=random f32[12800]=random
// args: f32[200]=ones f32[200]=random f32[16640]=uninit f32[16640]=uninit
// args: i32=100 i32=130 f32=0.125 i32=1
#include "prelude.cuh"

#include "tile.cuh"

constexpr int ROWS = BLOCK_KV / TY;    // keys of a thread
constexpr int COLUMNS = BLOCK_Q / TX;  // queries of a thread

struct Memory {
    Rows<BLOCK_KV> k, v;
    Rows<BLOCK_Q> q, d_o;
    Weights<BLOCK_KV, BLOCK_Q> weights;  // p^T, then ds^T
    float lse[BLOCK_Q], delta[BLOCK_Q];
};

extern "C" __global__ void __launch_bounds__(THREADS) recompute_dk_dv(
    const Vector* q,      // [B, H, nq, D] f32
    const Vector* k,      // [B, H, nk, D] f32
    const Vector* v,      // [B, H, nk, D] f32
    const Vector* d_o,    // [B, H, nq, D] f32
    const float* lse,     // [B, H, nq] f32
    const float* delta,   // [B, H, nq] f32
    Vector* dk,           // [B, H, nk, D] f32
    Vector* dv,           // [B, H, nk, D] f32
    int nq, int nk, float scale, int causal
) {
    extern __shared__ __align__(16) unsigned char bytes_smem[];
    Memory& smem = reinterpret_cast<Memory&>(bytes_smem);
    const int tiles = (nk + BLOCK_KV - 1) / BLOCK_KV;
    const long long matrix = blockIdx.x / tiles;      // b * H + h
    const int first = blockIdx.x % tiles * BLOCK_KV;  // first key of the tile
    const long long queries = matrix * nq;            // rows before those of this matrix
    const long long keys = matrix * nk * CHUNKS;      // vectors before
    load<BLOCK_KV>(smem.k, k + keys, first, nk);
    load<BLOCK_KV>(smem.v, v + keys, first, nk);
    Vector dk_reg[ROWS][PIECES] = {};
    Vector dv_reg[ROWS][PIECES] = {};
    // Query i sees the keys j <= i + nk - nq: the first that sees key j is j - (nk - nq).
    for (int query = causal ? max(0, first - (nk - nq)) : 0; query < nq; query += BLOCK_Q) {
        load<BLOCK_Q>(smem.q, q + queries * CHUNKS, query, nq);
        load<BLOCK_Q>(smem.d_o, d_o + queries * CHUNKS, query, nq);
        for (int x = threadIdx.x; x < BLOCK_Q; x += THREADS) {
            const bool exists = query + x < nq;
            smem.lse[x] = exists ? lse[queries + query + x] : INFINITY;  // so that p = 0
            smem.delta[x] = exists ? delta[queries + query + x] : 0.0f;
        }
        __syncthreads();  // so that no thread reads a row before every thread has stored its part
        // ANCHOR: gradients
        float p_reg[ROWS][COLUMNS] = {};
        multiply(p_reg, smem.k, smem.q);
        float ds_reg[ROWS][COLUMNS] = {};
        multiply(ds_reg, smem.v, smem.d_o);
        for (int r = 0; r < ROWS; r++) {
            const int seeing = causal ? first + ty() + TY * r - (nk - nq) : 0;  // queries from here on see the key
            for (int n = 0; n < COLUMNS; n++) {
                const int x = tx() + TX * n;
                const float p = query + x < seeing ? 0.0f : __expf(p_reg[r][n] * scale - smem.lse[x]);
                ds_reg[r][n] = p * (ds_reg[r][n] - smem.delta[x]);
                smem.weights[ty() + TY * r][x] = p;
            }
        }
        __syncwarp();  // so that no lane reads a row of p before the lanes that share it have stored their parts
        accumulate<ROWS, BLOCK_Q>(dv_reg, smem.weights, smem.d_o);
        __syncwarp();  // so that no lane stores ds where another still reads p
        for (int r = 0; r < ROWS; r++) {
            for (int n = 0; n < COLUMNS; n++) {
                smem.weights[ty() + TY * r][tx() + TX * n] = ds_reg[r][n];
            }
        }
        __syncwarp();  // as before, of ds
        accumulate<ROWS, BLOCK_Q>(dk_reg, smem.weights, smem.q);
        // ANCHOR_END: gradients
        __syncthreads();  // so that no thread loads the next queries while another still reads these
    }
    store(dk + keys, dk_reg, scale, first, nk);
    store(dv + keys, dv_reg, 1.0f, first, nk);
}
