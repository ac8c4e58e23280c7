// wgmma: both products by warpgroups, four warps each, on tiles that hardware copies.
//
// Idea: a wgmma multiplies 64 queries of a warpgroup by a tile of k or v where the tile lies in
// shared memory: no ldmatrix, no fragments of k and v. A descriptor says where the tile lies. The
// instruction returns at once: the warps wait before they use its sums. p alone is a factor from
// registers. wgmma.cuh has the instructions, the descriptor, and the layout of the sums.
//
// A warp of its own, the producer, has the tiles copied, as in 8_tma.cu of stage 4. That is done,
// and so are the mbarriers, the waits for tiles, and the stores of o. The rest is the task.
//
// The task is not solved if less than 95% of the operations of tensor cores are those of wgmma, nor
// if shared memory takes more than 1.5 times the wavefronts that it would without bank conflicts.
//
// Constants: HEAD_DIM, 64 or 128; from tile() in src/wgmma.rs BLOCK_Q, BLOCK_KV, THREADS.
// Grid:   x = ceil(nq / BLOCK_Q) * B * H.
// Block:  (THREADS). A warpgroup has 64 queries, a warp 16 of them.
// Query i sees key j if j < nk and, with the causal mask, j <= i + (nk - nq). A query that sees no
// key has o = 0, lse = -inf.
//
// `cargo gpu check exercises/stage4/kernels/wgmma.cu` looks for races and other findings in this
// launch; src/wgmma.rs says what they mean:
// arch: compute_90a
// launch: grid=2 block=288 shared=81920 pass=3,4,5,6,7,8,9,10,11
// define: HEAD_DIM=64 BLOCK_Q=128 BLOCK_KV=128 THREADS=288
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

constexpr int VECTORS = HEAD_DIM / 8;    // vectors of a row
constexpr int PANEL = 8;                 // vectors of a row of a box: 128 bytes, in which vectors swap places
constexpr int PANELS = VECTORS / PANEL;  // boxes of a tile: each has 64 columns of all of its rows
constexpr int STAGES = 2;                // tiles of k, and of v, in shared memory or on their way
constexpr int GROUPS = BLOCK_Q / 64;     // warpgroups of consumers
static_assert(HEAD_DIM % 64 == 0 && BLOCK_KV == 128, "whole panels; wgmma_rows has 128 columns");
static_assert(BLOCK_Q % 64 == 0 && THREADS == 2 * BLOCK_Q + 32, "a warpgroup has 64 queries; one warp produces");

// The place of a vector of a tile of ROWS rows: its panels lie one behind the other, and a copy
// swaps the places of a row's 8 vectors.
template <int ROWS>
__device__ int at(int row, int vector) {
    return (vector / PANEL * ROWS + row) * PANEL + (vector % PANEL ^ row % PANEL);
}

// Starts the copies of a tile's boxes: ROWS rows from `row` on. The barrier gets their bytes.
template <int ROWS>
__device__ void copy_tile(Vector* target_smem, const TensorMap& tensor, int row, int matrix, Mbarrier* barrier_smem) {
    for (int panel = 0; panel < PANELS; panel++) {
        copy_box(target_smem + panel * ROWS * PANEL, tensor, panel * 64, row, matrix, barrier_smem);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) wgmma(
    const __grid_constant__ TensorMap q,  // [B * H, nq, D] f16, in boxes of BLOCK_Q rows and 64 columns
    const __grid_constant__ TensorMap k,  // [B * H, nk, D] f16, in boxes of BLOCK_KV rows and 64 columns
    const __grid_constant__ TensorMap v,  // the same
    Vector* o,                            // [B, H, nq, D] f16
    float* lse,                           // [B, H, nq] f32, or null
    int nq, int nk, float scale, int causal
) {
    extern __shared__ __align__(1024) Vector q_smem[];       // 8 rows of a panel, after which places repeat
    Vector* k_smem = q_smem + BLOCK_Q * VECTORS;             // STAGES tiles
    Vector* v_smem = k_smem + STAGES * BLOCK_KV * VECTORS;  // STAGES tiles
    __shared__ Mbarrier q_full, full[STAGES], empty[STAGES];
    const int tiles = (nq + BLOCK_Q - 1) / BLOCK_Q;
    const int matrix = blockIdx.x / tiles;           // b * H + h
    const int first = blockIdx.x % tiles * BLOCK_Q;  // first query of the tile
    const int warp = threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    const int key_end = causal ? min(nk, first + BLOCK_Q + (nk - nq)) : nk;
    if (threadIdx.x == 0) {
        mbarrier_init(&q_full, 1);
        for (int s = 0; s < STAGES; s++) {
            mbarrier_init(&full[s], 1);            // the producer arrives
            mbarrier_init(&empty[s], 4 * GROUPS);  // a lane of each consumer warp arrives
        }
        fence_mbarrier_init();
    }
    __syncthreads();  // so that no thread uses a barrier before it is initialised
    if (warp == 4 * GROUPS) {
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
        return;
    }
    const int row = warp * 16;  // first query of the warp, in the tile
    mbarrier_wait(&q_full, 0);
    for (int key = 0, n = 0; key < key_end; key += BLOCK_KV, n++) {
        const int s = n % STAGES;
        mbarrier_wait(&full[s], n / STAGES % 2);
        // TODO, task 4/wgmma.
        // 1. The scores of this warpgroup's 64 queries and the tile's keys, by wgmma_rows: fence,
        //    HEAD_DIM / 16 products, commit, wait. Where do the columns of a product lie?
        // 2. Mask and softmax of the scores that this lane holds: two rows, where rung 8 has four.
        // 3. o = shrink o + p v, by wgmma_columns: 16 keys a product. p is rounded to f16, in the
        //    layout of a; o is o_reg[VECTORS][4]. Which uses of registers does the fence order?
        // 4. When the products that read the tile have ended: lane 0 arrives at empty[s].
    }
    // 5. Divide o by the sums of the rows, round it, and write lse. The warp's rows of o take the
    //    place of its rows of q: lane 4 g + t has x[t] of q_smem[at<BLOCK_Q>(row + g, c)], in
    //    o_reg[c], and that of the row 8 below.
    __syncwarp();  // so that no lane reads a row of o before the lanes that share it have stored their parts
    for (int x = lane; x < 16 * VECTORS; x += 32) {
        const int i = first + row + x / VECTORS;
        if (i < nq) {
            o[(static_cast<long long>(matrix) * nq + i) * VECTORS + x % VECTORS] = q_smem[at<BLOCK_Q>(row + x / VECTORS, x % VECTORS)];
        }
    }
}
