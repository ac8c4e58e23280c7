// Attention in half precision on compute capability 9.0, with every option but a block mask.
//
// Idea: as in 10_ping_pong.cu. A warp copies tiles by the tensor memory accelerator, and two
// warpgroups take turns to start products, so that one computes its softmax while the products of
// the other run. Tensor maps know strides and heads of k and v. Masks, scales and the softmax are
// those of attention_mma.cu.
//
// Grid:   x = ceil(nq / BLOCK_Q) * B * H.
// Block:  (THREADS): two warpgroups of consumers with 64 queries each, and that of the producer,
//         of which one warp works.
// Shared: (BLOCK_Q + 4 * BLOCK_KV) * HEAD_DIM * 2 bytes, dynamic.
// Reads:  q once; k and v once per block. Writes: o, lse once.
// A query that sees no key gets o = 0, lse = -inf.
// Constants: BLOCK_Q = BLOCK_KV = 128, THREADS = 384; HEAD_DIM: 64 or 128, which is D, or more;
// ELEMENT: f16 or bf16; DROPOUT, 1 to drop weights: see dropout.cuh.
//
// arch: compute_90a
// launch: grid=4 block=384 shared=81920 pass=3,4,5,6,7,8,9,10
// define: HEAD_DIM=64 BLOCK_Q=128 BLOCK_KV=128 THREADS=384 ELEMENT=f16
// args: f16[25600]=random f16[16640]=random f16[16640]=random
// args: tensormap{0,64x100x2x2,box=64x64x1x1,swizzle=128}
// args: tensormap{1,64x130x1x2,box=64x128x1x1,swizzle=128}
// args: tensormap{2,64x130x1x2,box=64x128x1x1,swizzle=128}
// args: null null f16[25600]=uninit f32[400]=uninit
// args: {{i64=12800,6400,64}, {i64=8320,8320,64}, {i64=8320,8320,64}, {i64=12800,6400,64}, {i64=0,0,0}, {i64=0,0,0},
// args:  i32=2,2, 100,130, 64, -100,30, f32=0.125}
#include "band.cuh"
#include "boxes.cuh"
#include "half_scores.cuh"
#include "prelude.cuh"
#include "problem.cuh"

template <typename T>
constexpr bool IS_BF16 = false;
template <>
constexpr bool IS_BF16<bf16> = true;
constexpr bool BF16 = IS_BF16<Half>;

constexpr int GROUP_Q = 64;                // queries of a warpgroup
constexpr int GROUPS = BLOCK_Q / GROUP_Q;  // warpgroups of consumers
constexpr int STAGES = 2;                  // tiles of k, and of v, in shared memory or on their way
constexpr int SCORES = BLOCK_KV / 2;       // scores of a lane
constexpr float LOG2_E = 1.44269504f;
constexpr float LOWEST = -3.40282347e38f;  // of all finite f32
constexpr float ROOM = 5.5f;               // ln of the largest p, about 2^8
constexpr float FAR = 65536.0f;            // from here on products are rounded first
constexpr int PRODUCER_REGISTERS = 40;     // of a thread. 128 * 40 + 256 * 232 = 384 * 168: what the block has
constexpr int CONSUMER_REGISTERS = 232;
static_assert(HEAD_DIM % 64 == 0 && BLOCK_KV == 128, "whole panels; wgmma_rows has 128 columns");
static_assert(GROUPS == 2 && THREADS == 384, "two warpgroups take turns, and one produces");

extern "C" __global__ void __launch_bounds__(THREADS) attention_wgmma(
    const __grid_constant__ TensorMap q,  // [B, H, nq, D] f16 or bf16, in boxes of 64 rows and 64 columns
    const __grid_constant__ TensorMap k,  // [B, H / group, nk, D] f16 or bf16, in boxes of BLOCK_KV rows and 64 columns
    const __grid_constant__ TensorMap v,  // the same
    const float* mask,                    // [B, H, nq, nk] f32, or null
    const int* key_lengths,               // [B] i32, or null
    Half* o,                              // [B, H, nq, D] f16 or bf16
    float* lse,                           // [B, H, nq] f32, packed, or null
    Problem problem
) {
    extern __shared__ __align__(1024) Vector q_smem[];  // GROUPS tiles; 8 rows of a panel, after which places repeat
    Vector* k_smem = q_smem + BLOCK_Q * VECTORS;            // STAGES tiles
    Vector* v_smem = k_smem + STAGES * BLOCK_KV * VECTORS;  // STAGES tiles
    __shared__ Mbarrier q_full, k_full[STAGES], v_full[STAGES], k_empty[STAGES], v_empty[STAGES], cut;
    const QueryTile queries = query_tile<BLOCK_Q>(problem, blockIdx.x);
    const Mask masks(mask, key_lengths, nullptr, problem, queries.batch, queries.head);
    const int group = threadIdx.x / 128;
    const int warp = threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    const int key_begin = masks.begin_of(queries.first) / BLOCK_KV * BLOCK_KV;
    const int key_end = masks.end_of(queries.end);
    if (threadIdx.x == 0) {
        mbarrier_init(&q_full, 1);
        mbarrier_init(&cut, 1);
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
        if (warp > 4 * GROUPS) {
            return;
        }
        if (lane == 0) {
            mbarrier_arrive_expect_tx(&q_full, BLOCK_Q * HEAD_DIM * 2);
            for (int m = 0; m < GROUPS; m++) {
                const int first = queries.first + m * GROUP_Q;
                copy_tile<GROUP_Q>(q_smem + m * GROUP_Q * VECTORS, q, first, queries.head, queries.batch, &q_full);
            }
        }
        const int head = queries.head / problem.group;
        // Rows behind the last one of the tensor are zeros: no tile is cut there.
        const int keys = masks.keys < problem.nk ? masks.keys : key_end + BLOCK_KV;
        for (int key = key_begin, n = 0; key < key_end; key += BLOCK_KV, n++) {
            const int s = n % STAGES;
            const int before = n / STAGES % 2 ^ 1;  // returns at once for the first tile of a stage
            Vector* k_tile = k_smem + s * BLOCK_KV * VECTORS;
            Vector* v_tile = v_smem + s * BLOCK_KV * VECTORS;
            mbarrier_wait(&k_empty[s], before);
            copy_keys<BLOCK_KV>(k_tile, k, key, keys, head, queries.batch, &k_full[s], &cut, 0);
            mbarrier_wait(&v_empty[s], before);
            copy_keys<BLOCK_KV>(v_tile, v, key, keys, head, queries.batch, &v_full[s], &cut, 1);
        }
        return;
    }
    setmaxnreg_inc<CONSUMER_REGISTERS>();
    const int row = warp % 4 * 16;                      // first query of the warp, in the warpgroup's tile
    const int first = queries.first + group * GROUP_Q;  // first query of the warpgroup
    const int end = min(first + GROUP_Q, problem.nq);   // of its queries
    const int g = lane / 4;
    const int t = lane % 4;
    // So small, it makes all scores 0, as 0 does; but 0 times -inf would be NaN.
    const float scale = fmaxf(fabsf(problem.scale), 1e-37f);
    Vector* q_group = q_smem + group * GROUP_Q * VECTORS;
    const auto q_tile = at_address(descriptor(16), shared_address(q_group));
    float o_reg[VECTORS][4] = {};
    float s_reg[BLOCK_KV / 8][4];
    unsigned p_reg[BLOCK_KV / 16][4];
    float sum_reg[2] = {};                // of rows g + 8 w: this lane's keys
    float max_reg[2] = {LOWEST, LOWEST};  // what is subtracted from scores: at most ROOM below their maximum
    float shrink_reg[2];                  // factor of o_reg, once p v of the tile before is in it
    bool shrinks = false;                 // some row of the warp has one
    bool far = true;                      // some maximum of the warp is so large that products are rounded first

    // Waits for k of tile n and for the turn, and starts s = q k^T. One group.
    const auto start_scores = [&](int n) {
        const auto k_tile = at_address(descriptor(16), shared_address(k_smem + n % STAGES * BLOCK_KV * VECTORS));
        mbarrier_wait(&k_full[n % STAGES], n / STAGES % 2);
        bar_sync<256>(1 + group);  // so that the other warpgroup's products come first
        wgmma_fence();
#pragma unroll
        for (int c = 0; c < HEAD_DIM; c += 16) {
            const int columns = c % 64 / 8;  // vectors
            const int panel = c / 64 * PANEL;
            wgmma_rows<BF16>(s_reg, q_tile + panel * GROUP_Q + columns, k_tile + panel * BLOCK_KV + columns, c > 0);
        }
        wgmma_commit_group();
    };
    // Waits for v of tile n, and starts o += p v. One group. p and o belong to it until it ends.
    const auto start_output = [&](int n) {
        const unsigned v_smem_n = shared_address(v_smem + n % STAGES * BLOCK_KV * VECTORS);
        const auto v_tile = at_address(descriptor(BLOCK_KV * 128), v_smem_n);
        mbarrier_wait(&v_full[n % STAGES], n / STAGES % 2);
        wgmma_fence();
#pragma unroll
        for (int j = 0; j < BLOCK_KV; j += 16) {
            wgmma_columns<BF16>(o_reg, p_reg[j / 16], v_tile + j * PANEL);
        }
        wgmma_commit_group();
    };
    // Computes exponentials of the scores of the tile that begins at `key`. A product that writes o
    // may still run, so the factor of o is kept for make_p.
    const auto softmax = [&](int key) {
        if (problem.scale < 0.0f) {  // -s has its maximum where s has its minimum
            for (int e = 0; e < SCORES; e++) {
                s_reg[e / 4][e % 4] *= -1.0f;
            }
        }
        const bool mixed = masks.tile(first, end, key, key + BLOCK_KV) != Tile::Full;
        const bool biased = mixed && mask != nullptr;
        const float unit = biased ? 1.0f : scale;  // of the scores
        if (biased) {
            auto& score = reinterpret_cast<float(&)[BLOCK_KV / 8][1][4]>(s_reg);
            mask_scores<RowsAre::Queries>(score, masks, scale, first + row, key);
        } else if (mixed) {
            hide_scores(s_reg, masks, first + row, key);
        }
        float tile_max_reg[2];
        bool grows = false;
#pragma unroll
        for (int w = 0; w < 2; w++) {
            float max = -INFINITY;
            for (int e = 0; e < BLOCK_KV / 4; e++) {
                max = fmaxf(max, s_reg[e / 2][w * 2 + e % 2]);
            }
            tile_max_reg[w] = unit * row_max(max);
            grows |= tile_max_reg[w] > max_reg[w] + ROOM;
        }
        shrinks = __any_sync(0xffffffffu, grows);
        if (shrinks) {
            far = false;
#pragma unroll
            for (int w = 0; w < 2; w++) {
                const float max = fmaxf(max_reg[w], tile_max_reg[w]);
                shrink_reg[w] = ex2_approx_ftz_f32((max_reg[w] - max) * LOG2_E);
                max_reg[w] = max;
                far |= fabsf(max) > FAR;
                sum_reg[w] *= shrink_reg[w];
            }
            far = __any_sync(0xffffffffu, far);
        }
        if (biased || far) {  // the difference first: scores may be as low as -3.4e38
#pragma unroll
            for (int e = 0; e < SCORES; e++) {
                float& s = s_reg[e / 4][e % 4];
                s = ex2_approx_ftz_f32((__fmul_rn(unit, s) - max_reg[e / 2 % 2]) * LOG2_E);
            }
        } else {
#pragma unroll
            for (int e = 0; e < SCORES; e++) {
                float& s = s_reg[e / 4][e % 4];
                s = ex2_approx_ftz_f32(fmaf(scale * LOG2_E, s, -LOG2_E * max_reg[e / 2 % 2]));
            }
        }
#pragma unroll
        for (int e = 0; e < SCORES; e++) {
            sum_reg[e / 2 % 2] += s_reg[e / 4][e % 4];
        }
        if constexpr (DROPOUT) {
            const unsigned long long kept =
                kept_of_queries<BLOCK_KV / 8, 1>(problem, queries.batch, queries.head, first + row, key);
#pragma unroll
            for (int e = 0; e < SCORES; e++) {
                s_reg[e / 4][e % 4] = kept >> e & 1 ? s_reg[e / 4][e % 4] : 0.0f;
            }
        }
    };
    // Rounds the exponentials to p, and scales o to their maximum. No product may run.
    const auto make_p = [&] {
#pragma unroll
        for (int e = 0; e < SCORES; e += 2) {
            p_reg[e / 8][e / 2 % 4] = Half::round_pair(s_reg[e / 4][e % 4], s_reg[e / 4][e % 4 + 1]);
        }
        if (shrinks) {
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
    if (key_begin < key_end) {
        if (group == 1) {
            bar_arrive<256>(1);  // the first warpgroup begins
        }
        start_scores(0);
        bar_arrive<256>(2 - group);  // the turn of the other warpgroup
        wgmma_wait_group<0>(s_reg);
        release(&k_empty[0]);
        softmax(key_begin);
        make_p();
        const int last = (key_end - 1 - key_begin) / BLOCK_KV;
        for (int n = 1; n <= last; n++) {
            start_scores(n);
            start_output(n - 1);
            bar_arrive<256>(2 - group);
            wgmma_wait_group<1>(s_reg);  // the scores, the older group, are there; p v may still run
            release(&k_empty[n % STAGES]);
            softmax(key_begin + n * BLOCK_KV);
            wgmma_wait_group<0>(o_reg);
            release(&v_empty[(n - 1) % STAGES]);
            make_p();
        }
        start_output(last);
        wgmma_wait_group<0>(o_reg);
    }
    bar_sync<128>(1 + GROUPS + group);  // so that no product of the warpgroup reads q where o takes its place
    const unsigned o_lane = at(row + g, 0) * 16 + t * 4;  // bytes from q_group to the first pair of this lane
#pragma unroll
    for (int w = 0; w < 2; w++) {
        const int i = row + g + 8 * w;
        const float sum = row_sum(sum_reg[w]);
        const float inverse = sum == 0.0f ? 0.0f : dropout_of(problem).scale / sum;
        for (int n = 0; n < VECTORS; n++) {
            const float* pair = &o_reg[n][w * 2];
            char* target = reinterpret_cast<char*>(q_group) + behind(o_lane, 8 * w, n);
            *reinterpret_cast<unsigned*>(target) = Half::round_pair(pair[0] * inverse, pair[1] * inverse);
        }
        if (first + i < end && t == 0 && lse != nullptr) {
            const long long matrix = static_cast<long long>(queries.batch) * problem.heads + queries.head;
            lse[matrix * problem.nq + first + i] = max_reg[w] + logf(sum);  // log(0) = -inf
        }
    }
    Half* o_head = matrix_of(o, problem.o, queries.batch, queries.head);
    store_rows<16>(o_head, problem.o.row, q_group, row, first, end, problem.head_dim);
}
