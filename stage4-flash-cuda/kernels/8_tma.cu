// TMA: one thread starts the copies of whole tiles, which the tensor memory accelerator of compute
// capability 9.0 carries out. The warps that multiply copy nothing.
//
// Idea: up to rung 7 every thread computes addresses of copies, and all warps of a block wait for
// each other three times a tile. Here a warp of its own, the producer, states which box of a tensor
// goes where. The accelerator computes addresses, swizzles, and writes zeros for what lies outside
// of the tensor. Shared memory has room for STAGES tiles of k and of v. Each stage has two
// mbarriers: a phase of `full` ends when the bytes of a tile are there, one of `empty` when all
// consumers have read it. A consumer warp waits for its tile, and for no other warp.
//
// Constants: HEAD_DIM = D, 64 or 128; BLOCK_Q queries and BLOCK_KV keys of a tile, THREADS of a
//         block: BLOCK_Q consumers, and the 32 of the producer's warp.
// Grid:   x = ceil(nq / BLOCK_Q) * B * H.
// Block:  (THREADS). A consumer warp has 32 queries, as in rung 7.
// Shared: (BLOCK_Q + 4 * BLOCK_KV) * D * 2 bytes, dynamic.
// Reads:  q once; k and v once per block. Writes: o, lse once; o = 0 and lse = -inf for
//         a query that sees no key.
// p is finite in f16 as long as scores are below 2^27, as in rung 7.
//
// Since rung 7: who copies, how, and how warps wait.
//
// What limits it now: latency, with shared memory right behind. At D = 128 a thread has 255
// registers, so an SM has one block, and 4 warps that multiply where rung 7 has 8. Fragments still
// pass through registers: 1.5 wavefronts for each mma.sync. By the model of an H100 (8 heads of
// 4096 x 4096) it takes 0.124 ms, as rung 7 does. Not measured on hardware.
//
// arch: compute_90a
// launch: grid=2 block=160 shared=49152 pass=3,4,5,6,7,8,9,10,11
// define: HEAD_DIM=64 BLOCK_Q=128 BLOCK_KV=64 THREADS=160
// args: f16[12800]=random f16[16640]=random f16[16640]=random
// args: tensormap{0,64x100x2,box=64x128x1,swizzle=128}
// args: tensormap{1,64x130x2,box=64x64x1,swizzle=128}
// args: tensormap{2,64x130x2,box=64x64x1,swizzle=128}
// args: f16[12800]=uninit f32[200]=uninit i32=100 i32=130 f32=0.125 i32=1
#include "prelude.cuh"

#include "hopper.cuh"

struct alignas(16) Vector {
    unsigned x[4];  // 8 f16
};

constexpr int VECTORS = HEAD_DIM / 8;      // vectors of a row
constexpr int PANEL = 8;                   // vectors of a row of a box: 128 bytes, in which vectors swap places
constexpr int PANELS = VECTORS / PANEL;    // boxes of a tile: each has 64 columns of all of its rows
constexpr int STAGES = 2;                  // tiles of k, and of v, in shared memory or on their way
constexpr int CONSUMERS = BLOCK_Q / 32;    // warps
constexpr float LOG2_E = 1.44269504f;
constexpr float LN_2 = 0.693147181f;
constexpr float LOWEST = -3.40282347e38f;  // of all finite f32
constexpr float ROOM = 8.0f;               // log2 of the largest p
static_assert(HEAD_DIM % 64 == 0 && BLOCK_KV % 16 == 0, "whole panels and tiles");
static_assert(BLOCK_Q % 32 == 0 && THREADS == BLOCK_Q + 32, "a consumer warp has 32 queries; one warp produces");

// ANCHOR: place
// The place of a vector of a tile of ROWS rows: its panels lie one behind the other, and a copy
// swaps the places of a row's 8 vectors as rung 5 does.
template <int ROWS>
__device__ int at(int row, int vector) {
    return (vector / PANEL * ROWS + row) * PANEL + (vector % PANEL ^ row % PANEL);
}
// ANCHOR_END: place

// Starts the copies of a tile's boxes: ROWS rows from `row` on. The barrier gets their bytes.
template <int ROWS>
__device__ void copy_tile(Vector* target_smem, const TensorMap& tensor, int row, int matrix, Mbarrier* barrier_smem) {
    for (int panel = 0; panel < PANELS; panel++) {
        copy_box(target_smem + panel * ROWS * PANEL, tensor, panel * 64, row, matrix, barrier_smem);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) tma(
    const __grid_constant__ TensorMap q,  // [B * H, nq, D] f16, in boxes of BLOCK_Q rows and 64 columns
    const __grid_constant__ TensorMap k,  // [B * H, nk, D] f16, in boxes of BLOCK_KV rows and 64 columns
    const __grid_constant__ TensorMap v,  // the same
    Vector* o,                            // [B, H, nq, D] f16
    float* lse,                           // [B, H, nq] f32, or null
    int nq, int nk, float scale, int causal
) {
    extern __shared__ __align__(1024) Vector q_smem[];  // 8 rows of a panel, after which places repeat
    Vector* k_smem = q_smem + BLOCK_Q * VECTORS;             // STAGES tiles
    Vector* v_smem = k_smem + STAGES * BLOCK_KV * VECTORS;  // STAGES tiles
    __shared__ Mbarrier q_full, full[STAGES], empty[STAGES];
    const int tiles = (nq + BLOCK_Q - 1) / BLOCK_Q;
    const int matrix = blockIdx.x / tiles;           // b * H + h
    const int first = blockIdx.x % tiles * BLOCK_Q;  // first query of the tile
    const int warp = threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    const int key_end = causal ? min(nk, first + BLOCK_Q + (nk - nq)) : nk;
    // ANCHOR: barriers
    if (threadIdx.x == 0) {
        mbarrier_init(&q_full, 1);
        for (int s = 0; s < STAGES; s++) {
            mbarrier_init(&full[s], 1);           // the producer arrives
            mbarrier_init(&empty[s], CONSUMERS);  // a lane of each consumer warp arrives
        }
        fence_mbarrier_init();
    }
    __syncthreads();  // so that no thread uses a barrier before it is initialised
    // ANCHOR_END: barriers
    if (warp == CONSUMERS) {
        // ANCHOR: producer
        if (lane == 0) {
            mbarrier_arrive_expect_tx(&q_full, BLOCK_Q * HEAD_DIM * 2);
            copy_tile<BLOCK_Q>(q_smem, q, first, matrix, &q_full);
            for (int key = 0, n = 0; key < key_end; key += BLOCK_KV, n++) {
                const int s = n % STAGES;
                mbarrier_wait(&empty[s], n / STAGES % 2 ^ 1);  // at once for the first tile of a stage
                mbarrier_arrive_expect_tx(&full[s], 2 * BLOCK_KV * HEAD_DIM * 2);
                copy_tile<BLOCK_KV>(k_smem + s * BLOCK_KV * VECTORS, k, key, matrix, &full[s]);
                copy_tile<BLOCK_KV>(v_smem + s * BLOCK_KV * VECTORS, v, key, matrix, &full[s]);
            }
        }
        // ANCHOR_END: producer
        return;
    }
    const int row = warp * 32;  // first query of the warp, in the tile
    const int g = lane / 4;
    const int t = lane % 4;
    const float factor = fmaxf(fabsf(scale) * LOG2_E, 1e-37f);       // so small, it makes all scores 0, as 0 does
    const int whole = causal ? min(nk, first + 1 + (nk - nq)) : nk;  // each query of the block sees the keys below
    const unsigned q_lane = shared_address(&q_smem[at<BLOCK_Q>(row + lane % 16, lane / 16)]);
    const unsigned k_lane = shared_address(&k_smem[at<BLOCK_KV>(lane / 16 * 8 + lane % 8, lane / 8 % 2)]);
    const unsigned v_lane = shared_address(&v_smem[at<BLOCK_KV>(lane % 16, lane / 16)]);
    float o_reg[VECTORS][2][4] = {};
    float sum_reg[4] = {};  // of rows g + 8 w: this lane's keys
    float max_reg[4] = {LOWEST, LOWEST, LOWEST, LOWEST};  // what is subtracted from exponents: at most ROOM below their maximum
    mbarrier_wait(&q_full, 0);
    for (int key = 0, n = 0; key < key_end; key += BLOCK_KV, n++) {
        // ANCHOR: wait
        const int s = n % STAGES;
        const unsigned stage = s * BLOCK_KV * HEAD_DIM * 2;
        mbarrier_wait(&full[s], n / STAGES % 2);
        // ANCHOR_END: wait
        float s_reg[BLOCK_KV / 8][2][4] = {};
        for (int c = 0; c < VECTORS; c += 2) {
            const int step = c % PANEL * 16;
            unsigned q_reg[2][4];  // two tiles of 16 rows of q x 16 columns
            for (int m = 0; m < 2; m++) {
                ldmatrix_x4(q_reg[m], (q_lane ^ step) + (c / PANEL * BLOCK_Q + 16 * m) * 128);
            }
            for (int j = 0; j < BLOCK_KV / 8; j += 2) {
                unsigned k_reg[4];  // 16 rows of k x 16 columns: b0 and b1 of 8 keys, then of the next 8
                ldmatrix_x4(k_reg, stage + (k_lane ^ step) + (c / PANEL * BLOCK_KV + 8 * j) * 128);
                for (int m = 0; m < 2; m++) {
                    mma_m16n8k16(s_reg[j][m], q_reg[m], k_reg[0], k_reg[1], s_reg[j][m]);
                    mma_m16n8k16(s_reg[j + 1][m], q_reg[m], k_reg[2], k_reg[3], s_reg[j + 1][m]);
                }
            }
        }
        if (scale < 0.0f) {
            for (int e = 0; e < BLOCK_KV; e++) {
                s_reg[e / 8][e / 4 % 2][e % 4] *= -1.0f;
            }
        }
        if (key + BLOCK_KV > whole) {
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
            float& score = s_reg[e / 8][e / 4 % 2][e % 4];
            score = ex2_approx_ftz_f32(fmaf(factor, score, -max_reg[e / 2 % 4]));
            sum_reg[e / 2 % 4] += score;
        }
        for (int j = 0; j < BLOCK_KV; j += 16) {
            unsigned p_reg[2][4];
            for (int e = 0; e < 8; e++) {
                const float* pair = &s_reg[j / 8 + e / 2 % 2][e / 4][e % 2 * 2];
                p_reg[e / 4][e % 4] = cvt_rn_f16x2_f32(pair[0], pair[1]);
            }
            for (int c = 0; c < VECTORS; c += 2) {
                unsigned v_reg[4];  // 16 rows of v x 16 columns: b0 and b1 of 8 columns, then of the next 8
                ldmatrix_x4_trans(v_reg, stage + (v_lane ^ c % PANEL * 16) + (c / PANEL * BLOCK_KV + j) * 128);
                for (int m = 0; m < 2; m++) {
                    mma_m16n8k16(o_reg[c][m], p_reg[m], v_reg[0], v_reg[1], o_reg[c][m]);
                    mma_m16n8k16(o_reg[c + 1][m], p_reg[m], v_reg[2], v_reg[3], o_reg[c + 1][m]);
                }
            }
        }
        // ANCHOR: release
        __syncwarp();  // so that lane 0 does not free the tile before every lane has read it
        if (lane == 0) {
            mbarrier_arrive(&empty[s]);
        }
        // ANCHOR_END: release
    }
    // The warp's rows of q have been read, by this warp alone: its rows of o take their place.
    __syncwarp();
#pragma unroll
    for (int w = 0; w < 4; w++) {
        const int i = row + g + 8 * w;
        const float sum = row_sum(sum_reg[w]);
        const float inverse = sum == 0.0f ? 0.0f : 1.0f / sum;
        for (int c = 0; c < VECTORS; c++) {
            const float* pair = &o_reg[c][w / 2][w % 2 * 2];
            q_smem[at<BLOCK_Q>(i, c)].x[t] = cvt_rn_f16x2_f32(pair[0] * inverse, pair[1] * inverse);
        }
        if (first + i < nq && t == 0 && lse != nullptr) {
            lse[static_cast<long long>(matrix) * nq + first + i] = max_reg[w] * LN_2 + logf(sum);  // log(0) = -inf
        }
    }
    __syncwarp();  // so that no lane reads a row of o before the lanes that share it have stored their parts
    for (int x = lane; x < 32 * VECTORS; x += 32) {
        const int i = first + row + x / VECTORS;
        if (i < nq) {
            o[(static_cast<long long>(matrix) * nq + i) * VECTORS + x % VECTORS] = q_smem[at<BLOCK_Q>(row + x / VECTORS, x % VECTORS)];
        }
    }
}
