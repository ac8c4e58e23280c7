// Asynchronous copies: the next tile of keys is on its way while this one is computed.
//
// Idea: rung 2 waits for each tile of k and v. cp.async copies from global to shared memory while
// the thread goes on, without registers in between. k and v need no second buffer: while one is
// read, the other is filled.
//
//     k arrives;  start the copy of v;       scores                 v travels during the scores,
//     v arrives;  start the copy of next k;  softmax; o = c o + p v the next k during these two
//
// Constants: HEAD_DIM = D, BLOCK_Q queries and BLOCK_KV keys of a tile, THREADS of a block. The
//         host defines them when it compiles the kernel for a head dimension.
// Grid:   x = ceil(nq / BLOCK_Q) * B * H.
// Block:  (THREADS). TX = 16 neighbouring threads share ROWS queries, which lie TY apart.
// Shared: (BLOCK_Q * D + BLOCK_KV * 4 * (D / 4 | 1) + BLOCK_KV * D + BLOCK_Q *
//         (BLOCK_KV | 16)) * 4 bytes, static.
// Reads:  q once; k and v once per block. Writes: o, lse once; o = 0 and lse = -inf for
//         a query that sees no key.
// Since rung 2: when k and v are loaded, and by which instruction. The arithmetic is the same, bit
// for bit. In the time model latency passes beside the other parts, and in large problems those
// take longer: by it this rung is only as fast as rung 2.
//
// What limits it now: the number of instructions. 62% of them are multiply-adds. The others are
// loads from shared memory, sums of indices, and the softmax. A multiply-add of a whole warp has 32
// products; a tensor core's instruction has thousands.
//
// arch: compute_80
// launch: grid=4 block=128
// define: HEAD_DIM=64 BLOCK_Q=64 BLOCK_KV=32 THREADS=128
// args: f32[12800]=random f32[16640]=random f32[16640]=random f32[12800]=uninit f32[200]=uninit
// args: i32=100 i32=130 f32=0.125 i32=1
#include "prelude.cuh"

struct alignas(16) Vector {
    float x[4];
};

constexpr int ROWS = 8;                          // queries of a thread: ty + TY * r
constexpr int TY = BLOCK_Q / ROWS;
constexpr int TX = THREADS / TY;                 // threads that share a query
constexpr int KEYS = BLOCK_KV / TX;              // keys of a thread: tx + TX * n
constexpr int VECTORS = HEAD_DIM / 4;            // vectors of a row
constexpr int PIECES = (VECTORS + TX - 1) / TX;  // vectors of o of a thread: tx + TX * c
static_assert(HEAD_DIM % 4 == 0 && TX == 16 && BLOCK_KV % TX == 0, "a half warp shares rows of whole vectors");

// Starts a copy of 16 bytes, of which the first `bytes` are read and the rest are zeros.
__device__ void cp_async_cg_shared_global_16(void* target_smem, const void* source, int bytes) {
    const unsigned target = static_cast<unsigned>(__cvta_generic_to_shared(target_smem));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(target), "l"(source), "r"(bytes) : "memory");
}

// Puts the copies that this thread has started since the last group into a new one.
__device__ void cp_async_commit_group() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}

// Waits until at most N groups of this thread are on their way.
template <int N>
__device__ void cp_async_wait_group() {
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

// Starts the copy of rows [first, first + ROWS) of a matrix that ends before row `end`; the
// others are zeros. One group.
template <int ROWS, int STRIDE>
__device__ void copy_rows(Vector (&tile_smem)[ROWS][STRIDE], const Vector* matrix, int first, int end) {
#pragma unroll 2
    for (int x = threadIdx.x; x < ROWS * VECTORS; x += THREADS) {
        const int row = first + x / VECTORS;
        const Vector* source = matrix + static_cast<long long>(min(row, end - 1)) * VECTORS + x % VECTORS;
        cp_async_cg_shared_global_16(&tile_smem[x / VECTORS][x % VECTORS], source, row < end ? 16 : 0);
    }
    cp_async_commit_group();
}

// Folds a value over the threads that share a query; all of them get the result.
template <typename Fold>
__device__ float fold_row(float x, Fold fold) {
    for (int distance = TX / 2; distance > 0; distance /= 2) {
        x = fold(x, __shfl_xor_sync(0xffffffffu, x, distance));
    }
    return x;
}

extern "C" __global__ void __launch_bounds__(THREADS) async_copy(
    const Vector* q,  // [B, H, nq, D] f32
    const Vector* k,  // [B, H, nk, D] f32
    const Vector* v,  // [B, H, nk, D] f32
    Vector* o,        // [B, H, nq, D] f32
    float* lse,       // [B, H, nq] f32, or null
    int nq, int nk, float scale, int causal
) {
    __shared__ Vector q_smem[BLOCK_Q][VECTORS];
    __shared__ Vector k_smem[BLOCK_KV][VECTORS | 1];  // odd: 8 lanes that read a column of k read all 32 banks
    __shared__ Vector v_smem[BLOCK_KV][VECTORS];
    __shared__ alignas(16) float p_smem[BLOCK_Q][BLOCK_KV | 16];  // two rows that a warp stores lie 16 banks apart
    const int tiles = (nq + BLOCK_Q - 1) / BLOCK_Q;
    const long long matrix = blockIdx.x / tiles;     // b * H + h
    const int first = blockIdx.x % tiles * BLOCK_Q;  // first query of the tile
    const int tx = threadIdx.x % TX;
    const int ty = threadIdx.x / TX;
    const Vector* k_head = k + matrix * nk * VECTORS;
    const Vector* v_head = v + matrix * nk * VECTORS;
    float sum_reg[ROWS] = {};  // of this thread's keys
    Vector o_reg[ROWS][PIECES] = {};
    float max_reg[ROWS];
    for (float& max : max_reg) {
        max = -INFINITY;
    }
    const int key_end = causal ? min(nk, first + BLOCK_Q + (nk - nq)) : nk;
    if (key_end > 0) {
        copy_rows(q_smem, q + matrix * nq * VECTORS, first, nq);
        copy_rows(k_smem, k_head, 0, nk);
    }
    for (int key = 0; key < key_end; key += BLOCK_KV) {
        cp_async_wait_group<0>();
        __syncthreads();  // so that no thread reads q or k before all copies are there, or copies v while another reads it
        copy_rows(v_smem, v_head, key, nk);
        // ANCHOR: scores
        float s_reg[ROWS][KEYS] = {};
#pragma unroll 1  // the loops in it are unrolled, since registers have no index: 32 * KEYS multiply-adds
        for (int c = 0; c < VECTORS; c++) {
            Vector q_reg[ROWS];
            for (int r = 0; r < ROWS; r++) {
                q_reg[r] = q_smem[ty + TY * r][c];
            }
            for (int n = 0; n < KEYS; n++) {
                const Vector k_reg = k_smem[tx + TX * n][c];
                for (int e = 0; e < 4 * ROWS; e++) {
                    s_reg[e % ROWS][n] += q_reg[e % ROWS].x[e / ROWS] * k_reg.x[e / ROWS];
                }
            }
        }
        // ANCHOR_END: scores
        __syncthreads();  // so that no thread copies the next k while another still reads this one
        copy_rows(k_smem, k_head, key + BLOCK_KV, nk);  // zeros behind the last tile
        float shrink_reg[ROWS];  // factor of earlier sums
        for (int r = 0; r < ROWS; r++) {
            float max = max_reg[r];
            const int i = first + ty + TY * r;
            const int seen = causal ? min(nk, i + 1 + (nk - nq)) : nk;  // query i sees the keys below
            for (int n = 0; n < KEYS; n++) {
                s_reg[r][n] = key + tx + TX * n < seen ? s_reg[r][n] * scale : -INFINITY;
                max = fmaxf(max, s_reg[r][n]);
            }
            max = fold_row(max, [](float a, float b) { return fmaxf(a, b); });
            const float shift = max == -INFINITY ? 0.0f : max;  // exp(-inf - -inf) would be NaN
            shrink_reg[r] = __expf(max_reg[r] - shift);
            max_reg[r] = max;
            sum_reg[r] *= shrink_reg[r];
            for (int n = 0; n < KEYS; n++) {
                const float p = __expf(s_reg[r][n] - shift);
                p_smem[ty + TY * r][tx + TX * n] = p;
                sum_reg[r] += p;
            }
        }
        cp_async_wait_group<1>();  // v is there; the next k may be on its way
        __syncthreads();  // so that no thread reads p or v before every thread has stored, or copied, its part
        // ANCHOR: accumulate
        Vector pv_reg[ROWS][PIECES] = {};  // of this tile alone: long sums of short sums lose fewer digits
#pragma unroll 1
        for (int j = 0; j < BLOCK_KV; j += 4) {
            Vector p_reg[ROWS];
            for (int r = 0; r < ROWS; r++) {
                p_reg[r] = reinterpret_cast<const Vector&>(p_smem[ty + TY * r][j]);
            }
            for (int x = 0; x < 4; x++) {
                for (int c = 0; c < PIECES && tx + TX * c < VECTORS; c++) {
                    const Vector v_reg = v_smem[j + x][tx + TX * c];
                    for (int e = 0; e < 4 * ROWS; e++) {
                        pv_reg[e / 4][c].x[e % 4] += p_reg[e / 4].x[x] * v_reg.x[e % 4];
                    }
                }
            }
        }
        // ANCHOR_END: accumulate
        for (int r = 0; r < ROWS; r++) {
            for (int x = 0; x < 4 * PIECES; x++) {
                float& sum = o_reg[r][x / 4].x[x % 4];
                sum = sum * shrink_reg[r] + pv_reg[r][x / 4].x[x % 4];
            }
        }
    }
    cp_async_wait_group<0>();  // no copy is left behind
    for (int r = 0; r < ROWS; r++) {
        const int i = first + ty + TY * r;
        const float sum = fold_row(sum_reg[r], [](float a, float b) { return a + b; });
        const float inverse = sum == 0.0f ? 0.0f : 1.0f / sum;
        if (i < nq) {
            for (int c = 0; c < PIECES && tx + TX * c < VECTORS; c++) {
                for (int w = 0; w < 4; w++) {
                    o_reg[r][c].x[w] *= inverse;
                }
                o[(matrix * nq + i) * VECTORS + tx + TX * c] = o_reg[r][c];
            }
            if (tx == 0 && lse != nullptr) {
                lse[matrix * nq + i] = max_reg[r] + logf(sum);  // log(0) = -inf
            }
        }
    }
}
