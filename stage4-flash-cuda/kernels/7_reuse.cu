// Reuse: a warp has 32 queries, and multiplies each fragment of k and v by two tiles of q.
//
// Idea: in rung 6 a fragment that ldmatrix reads serves two mma.sync. With 32 queries, two tiles of
// 16, it serves four. So that few instructions are spent on addresses, a lane computes its own
// once. A step of columns flips bits of them, as a swizzled place is c ^ r % 8; a step of rows adds
// a constant. Only the last tile of k and v asks of each row whether it is there.
//
// Constants: HEAD_DIM = D, BLOCK_Q queries and BLOCK_KV keys of a tile, THREADS of a block. The
//         host defines them when it compiles the kernel for a head dimension.
// Grid:   x = ceil(nq / BLOCK_Q) * B * H.
// Block:  (THREADS). A warp has 32 queries; lane 4 g + t has rows g, g + 8, g + 16 and g + 24,
//         shared with 3 neighbours.
// Shared: (BLOCK_Q + 2 * BLOCK_KV) * D * 2 bytes, dynamic.
// Reads:  q once; k and v once per block. Writes: o, lse once; o = 0 and lse = -inf for
//         a query that sees no key.
// p is finite in f16 as long as scores are below 2^27: beyond, c s is rounded by more than 8, and
// p can be above 2^(ROOM + 8). The library takes larger scores.
//
// Since rung 6: the queries of a warp, and how addresses are computed.
//
// What limits it now: at D = 128 the tensor cores of an A100 and, with half as many queries, of an
// RTX 4090, which has room for one large block and waits at its barriers. There are 1.5 wavefronts
// and 3.8 instructions for each mma.sync. The 255 registers of a thread leave no room for more
// queries, or for q. On an H200 latency: with 2 warps for each scheduler, its tensor cores, shared
// memory and issue slots are busy 45%, 47% and 37% of the time (D = 64). wgmma takes less of all.
//
// arch: compute_80
// launch: grid=2 block=128 shared=32768
// define: HEAD_DIM=64 BLOCK_Q=128 BLOCK_KV=64 THREADS=128
// args: f16[12800]=random f16[16640]=random f16[16640]=random f16[12800]=uninit f32[200]=uninit
// args: i32=100 i32=130 f32=0.125 i32=1
#include "prelude.cuh"

#include "mma.cuh"

struct alignas(16) Vector {
    unsigned x[4];  // 8 f16
};

constexpr int VECTORS = HEAD_DIM / 8;              // vectors of a row
constexpr int ROW = HEAD_DIM * 2;                  // bytes of a row
constexpr int PLACES = VECTORS < 8 ? VECTORS : 8;  // vectors of a row that swap places
constexpr float LOG2_E = 1.44269504f;
constexpr float LN_2 = 0.693147181f;
constexpr float LOWEST = -3.40282347e38f;          // of all finite f32
constexpr float ROOM = 8.0f;                       // log2 of the largest p
static_assert(HEAD_DIM % 16 == 0 && BLOCK_KV % 16 == 0 && THREADS == BLOCK_Q, "whole tiles; a warp has 32 queries");
static_assert(BLOCK_KV * VECTORS % THREADS == 0 && THREADS % VECTORS == 0, "threads copy equally many vectors");

// The place of a vector of a row. Rows shorter than 128 bytes share their banks
// with 8 / PLACES - 1 others.
__device__ int at(int row, int vector) {
    return row * VECTORS + (vector ^ row * PLACES / 8 % PLACES);
}

// Starts the copy of this thread's vectors of a tile, the first from `source` to `target`. One
// group. `bytes` tells how many of a vector are read; the rest are zeros.
template <typename Bytes>
__device__ void copy_vectors(unsigned target_smem, const Vector* source, Bytes bytes) {
    for (int r = 0; r < BLOCK_KV; r += THREADS / VECTORS) {
        const unsigned target = (target_smem ^ r * PLACES / 8 % PLACES * 16) + r * ROW;
        cp_async_cg_shared_global_16(target, source + r * VECTORS, bytes(r));
    }
    cp_async_commit_group();
}

// The same for a tile of a matrix that ends `rows` rows below its first.
__device__ void copy_tile(unsigned target_smem, const Vector* source, int rows) {
    if (rows < BLOCK_KV) {
        const int own = rows - threadIdx.x / VECTORS;
        copy_vectors(target_smem, source, [=](int r) { return r < own ? 16 : 0; });
    } else {
        copy_vectors(target_smem, source, [](int) { return 16; });
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) reuse(
    const Vector* q,  // [B, H, nq, D] f16
    const Vector* k,  // [B, H, nk, D] f16
    const Vector* v,  // [B, H, nk, D] f16
    Vector* o,        // [B, H, nq, D] f16
    float* lse,       // [B, H, nq] f32, or null
    int nq, int nk, float scale, int causal
) {
    extern __shared__ __align__(256) Vector q_smem[];  // so that a step of columns flips no bit of a row's address
    Vector* k_smem = q_smem + BLOCK_Q * VECTORS;
    Vector* v_smem = k_smem + BLOCK_KV * VECTORS;
    const int tiles = (nq + BLOCK_Q - 1) / BLOCK_Q;
    const long long matrix = blockIdx.x / tiles;     // b * H + h
    const int first = blockIdx.x % tiles * BLOCK_Q;  // first query of the tile
    const int row = threadIdx.x / 32 * 32;           // first query of the warp, in the tile
    const int lane = threadIdx.x % 32;
    const int g = lane / 4;
    const int t = lane % 4;
    const float factor = fmaxf(fabsf(scale) * LOG2_E, 1e-37f);  // so small, it makes all scores 0, as 0 does
    const unsigned sign = scale < 0.0f ? 0x80008000u : 0u;
    const Vector* k_own = k + matrix * nk * VECTORS + threadIdx.x;  // this thread's first vector of a tile
    const Vector* v_own = v + matrix * nk * VECTORS + threadIdx.x;
    const int own = at(threadIdx.x / VECTORS, threadIdx.x % VECTORS);
    const int key_end = causal ? min(nk, first + BLOCK_Q + (nk - nq)) : nk;
    const int whole = causal ? min(nk, first + 1 + (nk - nq)) : nk;  // each query of the block sees the keys below
    if (key_end > 0) {
        copy_tile(shared_address(&k_smem[own]), k_own, nk);
    }
    for (int x = threadIdx.x; x < BLOCK_Q * VECTORS; x += THREADS) {
        const int i = first + x / VECTORS;
        Vector vector = i < nq ? q[(matrix * nq + i) * VECTORS + x % VECTORS] : Vector{};
        for (unsigned& word : vector.x) {
            word ^= sign;
        }
        q_smem[at(x / VECTORS, x % VECTORS)] = vector;
    }
    // ANCHOR: lanes
    const unsigned q_lane = shared_address(&q_smem[at(row + lane % 16, lane / 16)]);
    const unsigned k_lane = shared_address(&k_smem[at(lane / 16 * 8 + lane % 8, lane / 8 % 2)]);
    const unsigned v_lane = shared_address(&v_smem[at(lane % 16, lane / 16)]);
    // ANCHOR_END: lanes
    float o_reg[VECTORS][2][4] = {};
    float sum_reg[4] = {};  // of rows g + 8 w: this lane's keys
    float max_reg[4] = {LOWEST, LOWEST, LOWEST, LOWEST};  // what is subtracted from exponents: at most ROOM below their maximum
    for (int key = 0; key < key_end; key += BLOCK_KV) {
        cp_async_wait_group<0>();
        __syncthreads();  // so that no thread reads q or k before all of it is there, or copies v while another reads it
        copy_tile(shared_address(&v_smem[own]), v_own, nk - key);
        k_own += BLOCK_KV * VECTORS;
        v_own += BLOCK_KV * VECTORS;
        // ANCHOR: scores
        float s_reg[BLOCK_KV / 8][2][4] = {};
        for (int c = 0; c < VECTORS; c += 2) {
            unsigned q_reg[2][4];  // two tiles of 16 rows of q x 16 columns
            for (int m = 0; m < 2; m++) {
                ldmatrix_x4(q_reg[m], (q_lane ^ c * 16) + 16 * m * ROW);
            }
            for (int n = 0; n < BLOCK_KV / 8; n += 2) {
                unsigned k_reg[4];  // 16 rows of k x 16 columns: b0 and b1 of 8 keys, then of the next 8
                ldmatrix_x4(k_reg, (k_lane ^ c * 16) + 8 * n * ROW);
                for (int m = 0; m < 2; m++) {
                    mma_m16n8k16(s_reg[n][m], q_reg[m], k_reg[0], k_reg[1], s_reg[n][m]);
                    mma_m16n8k16(s_reg[n + 1][m], q_reg[m], k_reg[2], k_reg[3], s_reg[n + 1][m]);
                }
            }
        }
        // ANCHOR_END: scores
        __syncthreads();  // so that no thread copies the next k while another still reads this one
        const int next = key + BLOCK_KV;
        copy_tile(shared_address(&k_smem[own]), k_own, nk - next);  // zeros behind the last
        if (next > whole) {
            for (int e = 0; e < BLOCK_KV; e++) {
                const int i = first + row + g + e / 2 % 4 * 8;
                const int seen = causal ? min(nk, i + 1 + (nk - nq)) : nk;  // query i sees the keys below
                if (key + e / 8 * 8 + 2 * t + e % 2 >= seen) {
                    s_reg[e / 8][e / 4 % 2][e % 4] = -INFINITY;
                }
            }
        }
        float tile_max_reg[4];
        bool grows = false;
#pragma unroll
        for (int w = 0; w < 4; w++) {
            float max = -INFINITY;
            for (int e = 0; e < BLOCK_KV / 4; e++) {
                max = fmaxf(max, s_reg[e / 2][w / 2][w % 2 * 2 + e % 2]);
            }
            tile_max_reg[w] = factor * row_max(max);
            grows |= tile_max_reg[w] > max_reg[w] + ROOM;
        }
        if (__any_sync(0xffffffffu, grows)) {
#pragma unroll
            for (int w = 0; w < 4; w++) {
                const float max = fmaxf(max_reg[w], tile_max_reg[w]);
                const float shrink = ex2_approx_ftz_f32(max_reg[w] - max);  // factor of earlier sums
                max_reg[w] = max;
                sum_reg[w] *= shrink;
                for (int e = 0; e < HEAD_DIM / 4; e++) {
                    o_reg[e / 2][w / 2][w % 2 * 2 + e % 2] *= shrink;
                }
            }
        }
        for (int e = 0; e < BLOCK_KV; e++) {
            float& s = s_reg[e / 8][e / 4 % 2][e % 4];
            s = ex2_approx_ftz_f32(fmaf(factor, s, -max_reg[e / 2 % 4]));
            sum_reg[e / 2 % 4] += s;
        }
        cp_async_wait_group<1>();  // v is there; the next k may be on its way
        __syncthreads();  // so that no thread reads v before every thread's part of it is there
        // ANCHOR: accumulate
        for (int j = 0; j < BLOCK_KV; j += 16) {
            unsigned p_reg[2][4];
            for (int e = 0; e < 8; e++) {
                const float* s = &s_reg[j / 8 + e / 2 % 2][e / 4][e % 2 * 2];
                p_reg[e / 4][e % 4] = cvt_rn_f16x2_f32(s[0], s[1]);
            }
            for (int n = 0; n < VECTORS; n += 2) {
                unsigned v_reg[4];  // 16 rows of v x 16 columns: b0 and b1 of 8 columns, then of the next 8
                ldmatrix_x4_trans(v_reg, (v_lane ^ n * 16) + j * ROW);
                for (int m = 0; m < 2; m++) {
                    mma_m16n8k16(o_reg[n][m], p_reg[m], v_reg[0], v_reg[1], o_reg[n][m]);
                    mma_m16n8k16(o_reg[n + 1][m], p_reg[m], v_reg[2], v_reg[3], o_reg[n + 1][m]);
                }
            }
        }
        // ANCHOR_END: accumulate
    }
    cp_async_wait_group<0>();  // no copy is left behind
    __syncthreads();  // so that no thread writes o over q before every thread has stored its part: there may be no keys
#pragma unroll
    for (int w = 0; w < 4; w++) {
        const int i = row + g + 8 * w;
        const float sum = row_sum(sum_reg[w]);
        const float inverse = sum == 0.0f ? 0.0f : 1.0f / sum;
        for (int n = 0; n < VECTORS; n++) {
            const float* pair = &o_reg[n][w / 2][w % 2 * 2];
            q_smem[at(i, n)].x[t] = cvt_rn_f16x2_f32(pair[0] * inverse, pair[1] * inverse);
        }
        if (first + i < nq && t == 0 && lse != nullptr) {
            lse[matrix * nq + first + i] = max_reg[w] * LN_2 + logf(sum);  // log(0) = -inf
        }
    }
    __syncwarp();  // so that no lane reads a row of o before the lanes that share it have stored their parts
    for (int x = lane; x < 32 * VECTORS; x += 32) {
        const int i = first + row + x / VECTORS;
        if (i < nq) {
            o[(matrix * nq + i) * VECTORS + x % VECTORS] = q_smem[at(row + x / VECTORS, x % VECTORS)];
        }
    }
}
