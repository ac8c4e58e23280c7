// Tensor cores: FlashAttention on tensors of f16, both products by mma.sync.
//
// Idea: mma.sync.m16n8k16 multiplies a 16 x 16 tile by a 16 x 8 tile. A warp has 16 queries.
// Tiles are spread over the registers of its lanes, as mma.cuh says; it also has the
// instruction. Scale, scores, maximum and sums are f32; p is rounded to f16 and stays in
// registers: two tiles of scores side by side have the layout of the left factor of p v.
//
// The task is not solved if one of the products is computed elsewhere.
//
// Constants: HEAD_DIM, a multiple of 16; from tile() in src/mma.rs BLOCK_Q, BLOCK_KV, THREADS.
// Grid:   x = ceil(nq / BLOCK_Q) * B * H.
// Block:  (THREADS).
// Query i sees key j if j < nk and, with the causal mask, j <= i + (nk - nq). A query that sees no
// key has o = 0, lse = -inf.
//
// `cargo gpu check exercises/stage4/kernels/mma.cu` looks for races and bad
// accesses in this launch:
// arch: compute_80
// launch: grid=4 block=128
// define: HEAD_DIM=64 BLOCK_Q=64 BLOCK_KV=64 THREADS=128
// args: f16[12800]=random f16[16640]=random f16[16640]=random f16[12800]=uninit f32[200]=uninit
// args: i32=100 i32=130 f32=0.125 i32=1
#include "prelude.cuh"

#include "mma.cuh"

struct alignas(16) Vector {
    unsigned x[4];  // 8 f16
};

extern "C" __global__ void __launch_bounds__(THREADS) mma(
    const Vector* q,  // [B, H, nq, D] f16
    const Vector* k,  // [B, H, nk, D] f16
    const Vector* v,  // [B, H, nk, D] f16
    Vector* o,        // [B, H, nq, D] f16
    float* lse,       // [B, H, nq] f32, or null
    int nq, int nk, float scale, int causal
) {
    // TODO, task 4/mma.
    // 1. Load the tile of q to shared memory. Rows from nq on do not exist: use 0.
    // 2. For each tile of keys: load k and v; barrier; s = q k^T by mma_m16n8k16; softmax of the
    //    elements that this lane holds, with row_max; o = shrink o + p v; barrier.
    // 3. The sum of a row: row_sum, once, at the end. Divide, round, and write o and lse.
}
