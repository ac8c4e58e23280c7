// Ping-pong: while the products of one tile run, the softmax of another is computed.
//
// Idea: in rung 9 the tensor cores rest while exponentials are computed. At D = 64 those, 16 a
// clock on a multiprocessor, take as long as the products. Here both run at the same time, in two
// ways. Within a warpgroup: it starts the scores of the next tile before p v of this one, and
// computes the softmax of the next while p v runs. Between the two warpgroups: they take turns to
// start products, by named barriers, so that one computes its softmax while the products of the
// other run. Scores of a tile and p of the one before are in registers at the same time. To make
// room, the producer's warpgroup gives back most of its registers (setmaxnreg).
//
// Constants: HEAD_DIM = D, 64 or 128; BLOCK_Q = 128 queries and BLOCK_KV keys of a tile, THREADS of
//         a block: two warpgroups of consumers, and the producer's, of which one thread works.
// Grid:   x = ceil(nq / BLOCK_Q) * B * H.
// Block:  (THREADS). A warpgroup has 64 queries, a warp 16 of them; lane 4 g + t has rows g and
//         g + 8, shared with 3 neighbours.
// Shared: (BLOCK_Q + 4 * BLOCK_KV) * D * 2 bytes, dynamic.
// Reads:  q once; k and v once per block. Writes: o, lse once; o = 0 and lse = -inf for
//         a query that sees no key.
// p is finite in f16 as long as scores are below 2^27, as in rung 7.
//
// Since rung 9: what runs while products run, mbarriers of k and v apart, and setmaxnreg.
//
// What limits it now: by the model of an H100 the tensor cores, in 0.071 ms, as in rung 9. The
// model cannot show what the turns gain: it takes the warpgroups of rung 9 to take turns, too. Not
// measured on hardware.
//
// arch: compute_90a
// launch: grid=2 block=384 shared=81920 pass=3,4,5,6,7,8,9,10,11
// define: HEAD_DIM=64 BLOCK_Q=128 BLOCK_KV=128 THREADS=384
// args: f16[12800]=random f16[16640]=random f16[16640]=random
// args: tensormap{0,64x100x2,box=64x128x1,swizzle=128}
// args: tensormap{1,64x130x2,box=64x128x1,swizzle=128}
// args: tensormap{2,64x130x2,box=64x128x1,swizzle=128}
// args: f16[12800]=uninit f32[200]=uninit i32=100 i32=130 f32=0.125 i32=1
#include "prelude.cuh"

#include "wgmma.cuh"

struct alignas(16) Vector {
    unsigned x[4];  // 8 f16
};

constexpr int VECTORS = HEAD_DIM / 8;      // vectors of a row
constexpr int PANEL = 8;                   // vectors of a row of a box: 128 bytes, in which vectors swap places
constexpr int PANELS = VECTORS / PANEL;    // boxes of a tile: each has 64 columns of all of its rows
constexpr int STAGES = 2;                  // tiles of k, and of v, in shared memory or on their way
constexpr int GROUPS = BLOCK_Q / 64;       // warpgroups of consumers
constexpr float LOG2_E = 1.44269504f;
constexpr float LN_2 = 0.693147181f;
constexpr float LOWEST = -3.40282347e38f;  // of all finite f32
constexpr float ROOM = 8.0f;               // log2 of the largest p
static_assert(HEAD_DIM % 64 == 0 && BLOCK_KV == 128, "whole panels; wgmma_rows has 128 columns");
constexpr int PRODUCER_REGISTERS = 24;     // of a thread. 128 * 24 + 256 * 240 = 384 * 168: what the block has
constexpr int CONSUMER_REGISTERS = 240;
static_assert(BLOCK_Q == 128 && THREADS == 384, "two warpgroups of consumers, which have 64 queries, and one that produces");

// The place of a vector of a tile of ROWS rows: its panels lie one behind the other, and a copy
// swaps the places of a row's 8 vectors as rung 5 does.
template <int ROWS>
__device__ int at(int row, int vector) {
    return (vector / PANEL * ROWS + row) * PANEL + (vector % PANEL ^ row % PANEL);
}

// ANCHOR: turns
// Waits at the barrier of this warpgroup, 1 or 2, until the other one has passed the turn: 128
// threads that wait and 128 that arrive.
__device__ void wait_for_turn(int group) {
    bar_sync<256>(1 + group);
}

// Arrives at the barrier of the other warpgroup, and goes on.
__device__ void pass_turn(int group) {
    bar_arrive<256>(2 - group);
}
// ANCHOR_END: turns

// Starts the copies of a tile's boxes: ROWS rows from `row` on. The barrier gets their bytes.
template <int ROWS>
__device__ void copy_tile(Vector* target_smem, const TensorMap& tensor, int row, int matrix, Mbarrier* barrier_smem) {
    for (int panel = 0; panel < PANELS; panel++) {
        copy_box(target_smem + panel * ROWS * PANEL, tensor, panel * 64, row, matrix, barrier_smem);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) ping_pong(
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
    __shared__ Mbarrier q_full, k_full[STAGES], v_full[STAGES], k_empty[STAGES], v_empty[STAGES];
    const int tiles = (nq + BLOCK_Q - 1) / BLOCK_Q;
    const int matrix = blockIdx.x / tiles;           // b * H + h
    const int first = blockIdx.x % tiles * BLOCK_Q;  // first query of the tile
    const int group = threadIdx.x / 128;
    const int warp = threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    const int key_end = causal ? min(nk, first + BLOCK_Q + (nk - nq)) : nk;
    if (threadIdx.x == 0) {
        mbarrier_init(&q_full, 1);
        for (int s = 0; s < STAGES; s++) {
            mbarrier_init(&k_full[s], 1);
            mbarrier_init(&v_full[s], 1);
            mbarrier_init(&k_empty[s], 4 * GROUPS);
            mbarrier_init(&v_empty[s], 4 * GROUPS);
        }
        fence_mbarrier_init();
    }
    __syncthreads();  // so that no thread uses a barrier before it is initialised
    if (group == GROUPS) {
        setmaxnreg_dec<PRODUCER_REGISTERS>();
        if (threadIdx.x == 128 * GROUPS) {
            mbarrier_arrive_expect_tx(&q_full, BLOCK_Q * HEAD_DIM * 2);
            copy_tile<BLOCK_Q>(q_smem, q, first, matrix, &q_full);
            for (int key = 0, n = 0; key < key_end; key += BLOCK_KV, n++) {
                const int s = n % STAGES;
                const int before = n / STAGES % 2 ^ 1;  // returns at once for the first tile of a stage
                mbarrier_wait(&k_empty[s], before);
                mbarrier_arrive_expect_tx(&k_full[s], BLOCK_KV * HEAD_DIM * 2);
                copy_tile<BLOCK_KV>(k_smem + s * BLOCK_KV * VECTORS, k, key, matrix, &k_full[s]);
                mbarrier_wait(&v_empty[s], before);
                mbarrier_arrive_expect_tx(&v_full[s], BLOCK_KV * HEAD_DIM * 2);
                copy_tile<BLOCK_KV>(v_smem + s * BLOCK_KV * VECTORS, v, key, matrix, &v_full[s]);
            }
        }
        return;
    }
    setmaxnreg_inc<CONSUMER_REGISTERS>();
    const int row = warp * 16;  // first query of the warp, in the tile
    const int g = lane / 4;
    const int t = lane % 4;
    const float factor = fmaxf(fabsf(scale) * LOG2_E, 1e-37f);       // so small, it makes all scores 0, as 0 does
    const int whole = causal ? min(nk, first + 1 + (nk - nq)) : nk;  // each query of the block sees the keys below
    const unsigned q_group = shared_address(q_smem + group * 64 * PANEL);  // row of its first query, in the first panel
    float o_reg[VECTORS][4] = {};
    float s_reg[BLOCK_KV / 8][4];
    unsigned p_reg[BLOCK_KV / 16][4];
    float sum_reg[2] = {};  // of rows g + 8 w: this lane's keys
    float max_reg[2] = {LOWEST, LOWEST};  // what is subtracted from exponents: at most ROOM below their maximum
    float shrink_reg[2] = {1.0f, 1.0f};   // factor of o_reg, once p v of the tile before is in it

    // Waits for k of tile n and for the turn, and starts s = q k^T. One group.
    const auto start_scores = [&](int n) {
        const unsigned k_stage = shared_address(k_smem + n % STAGES * BLOCK_KV * VECTORS);
        mbarrier_wait(&k_full[n % STAGES], n / STAGES % 2);
        wait_for_turn(group);
        wgmma_fence();
#pragma unroll
        for (int c = 0; c < HEAD_DIM; c += 16) {
            const unsigned q_step = q_group + c / 64 * BLOCK_Q * 128 + c % 64 * 2;
            const unsigned k_step = k_stage + c / 64 * BLOCK_KV * 128 + c % 64 * 2;
            wgmma_rows(s_reg, at_address(descriptor(16), q_step), at_address(descriptor(16), k_step), c > 0);
        }
        wgmma_commit_group();
    };
    // Waits for v of tile n, and starts o += p v. One group. p and o belong to it until it ends.
    const auto start_output = [&](int n) {
        const unsigned v_stage = shared_address(v_smem + n % STAGES * BLOCK_KV * VECTORS);
        mbarrier_wait(&v_full[n % STAGES], n / STAGES % 2);
        wgmma_fence();
#pragma unroll
        for (int j = 0; j < BLOCK_KV; j += 16) {
            wgmma_columns(o_reg, p_reg[j / 16], at_address(descriptor(BLOCK_KV * 128), v_stage + j * 128));
        }
        wgmma_commit_group();
    };
    // Computes exponentials of the scores of the tile that begins at `key`. A product that writes o
    // may still run, so the factor of o is kept for make_p.
    const auto softmax = [&](int key) {
        if (scale < 0.0f) {
            for (int e = 0; e < BLOCK_KV / 2; e++) {
                s_reg[e / 4][e % 4] *= -1.0f;
            }
        }
        if (key + BLOCK_KV > whole) {
            for (int e = 0; e < BLOCK_KV / 2; e++) {
                const int i = first + row + g + e / 2 % 2 * 8;
                const int seen = causal ? min(nk, i + 1 + (nk - nq)) : nk;  // query i sees the keys below
                if (key + e / 4 * 8 + 2 * t + e % 2 >= seen) {
                    s_reg[e / 4][e % 4] = -INFINITY;
                }
            }
        }
#pragma unroll
        for (int w = 0; w < 2; w++) {
            float max = -INFINITY;
            for (int e = 0; e < BLOCK_KV / 4; e++) {
                max = fmaxf(max, s_reg[e / 2][w * 2 + e % 2]);
            }
            max = factor * row_max(max);
            const float next = max > max_reg[w] + ROOM ? max : max_reg[w];
            shrink_reg[w] = ex2_approx_ftz_f32(max_reg[w] - next);  // factor of earlier sums
            max_reg[w] = next;
            sum_reg[w] *= shrink_reg[w];
        }
#pragma unroll
        for (int e = 0; e < BLOCK_KV / 2; e++) {
            float& score = s_reg[e / 4][e % 4];
            score = ex2_approx_ftz_f32(fmaf(factor, score, -max_reg[e / 2 % 2]));
            sum_reg[e / 2 % 2] += score;
        }
    };
    // Rounds the exponentials to p, and scales o to their maximum. No product may run.
    const auto make_p = [&] {
#pragma unroll
        for (int e = 0; e < BLOCK_KV / 2; e += 2) {
            p_reg[e / 8][e / 2 % 4] = cvt_rn_f16x2_f32(s_reg[e / 4][e % 4], s_reg[e / 4][e % 4 + 1]);
        }
        if (__any_sync(0xffffffffu, shrink_reg[0] != 1.0f || shrink_reg[1] != 1.0f)) {
#pragma unroll
            for (int e = 0; e < HEAD_DIM / 2; e++) {
                o_reg[e / 4][e % 4] *= shrink_reg[e / 2 % 2];
            }
        }
    };
    // Tells the producer that a tile has been read.
    const auto release = [&](Mbarrier* empty_smem) {
        if (lane == 0) {
            mbarrier_arrive(empty_smem);
        }
    };

    mbarrier_wait(&q_full, 0);  // without keys, too: o takes the place of q
    if (key_end > 0) {
        if (group == 1) {
            pass_turn(group);  // the first warpgroup begins
        }
        start_scores(0);
        pass_turn(group);
        wgmma_wait_group<0>(s_reg);
        release(&k_empty[0]);
        softmax(0);
        make_p();
        // ANCHOR: loop
        const int last = (key_end - 1) / BLOCK_KV;
        for (int n = 1; n <= last; n++) {
            start_scores(n);
            start_output(n - 1);
            pass_turn(group);
            wgmma_wait_group<1>(s_reg);  // the scores, the older group, are there; p v may still run
            release(&k_empty[n % STAGES]);
            softmax(n * BLOCK_KV);
            wgmma_wait_group<0>(o_reg);
            release(&v_empty[(n - 1) % STAGES]);
            make_p();
        }
        // ANCHOR_END: loop
        start_output(last);
        wgmma_wait_group<0>(o_reg);
    }
    // Products of its own warpgroup alone have read the warp's rows of q, and they have ended: its
    // rows of o take their place.
#pragma unroll
    for (int w = 0; w < 2; w++) {
        const int i = row + g + 8 * w;
        const float sum = row_sum(sum_reg[w]);
        const float inverse = sum == 0.0f ? 0.0f : 1.0f / sum;
        for (int c = 0; c < VECTORS; c++) {
            const float* pair = &o_reg[c][w * 2];
            q_smem[at<BLOCK_Q>(i, c)].x[t] = cvt_rn_f16x2_f32(pair[0] * inverse, pair[1] * inverse);
        }
        if (first + i < nq && t == 0 && lse != nullptr) {
            lse[static_cast<long long>(matrix) * nq + first + i] = max_reg[w] * LN_2 + logf(sum);  // log(0) = -inf
        }
    }
    __syncwarp();  // so that no lane reads a row of o before the lanes that share it have stored their parts
    for (int x = lane; x < 16 * VECTORS; x += 32) {
        const int i = first + row + x / VECTORS;
        if (i < nq) {
            o[(static_cast<long long>(matrix) * nq + i) * VECTORS + x % VECTORS] = q_smem[at<BLOCK_Q>(row + x / VECTORS, x % VECTORS)];
        }
    }
}
