// Pipeline: the kernel of swizzle.cu, whose tiles are copied while others are multiplied.
//
// Idea: cp.async copies 16 bytes to shared memory, and the thread goes on. The next k travels
// during the softmax and p v, and v during q k^T. A thread waits for its own copies,
// then all come to a barrier: before it, nobody may read what others have copied.
//
// The task is not solved if each copy is waited for at once: of the instructions of tensor cores a
// quarter or more must run while copies are under way. Its solution also has a softmax of few
// instructions: whole tiles are not masked, and scores are in base 2, for ex2_approx_ftz_f32.
//
// Constants: HEAD_DIM, a multiple of 16; from tile() in src/pipeline.rs BLOCK_Q, BLOCK_KV, THREADS.
// Grid:   x = ceil(nq / BLOCK_Q) * B * H.
// Block:  (THREADS).
// Query i sees key j if j < nk and, with the causal mask, j <= i + (nk - nq). A query that sees no
// key has o = 0, lse = -inf.
//
// `cargo gpu check exercises/stage4/kernels/pipeline.cu` looks for races and bad
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

extern "C" __global__ void __launch_bounds__(THREADS) pipeline(
    const Vector* q,  // [B, H, nq, D] f16
    const Vector* k,  // [B, H, nk, D] f16
    const Vector* v,  // [B, H, nk, D] f16
    Vector* o,        // [B, H, nq, D] f16
    float* lse,       // [B, H, nq] f32, or null
    int nq, int nk, float scale, int causal
) {
    // TODO, task 4/pipeline.
    // 1. Start the copy of the first k.
    // 2. For each tile of keys: wait for k, barrier; start the copy of v; scores; barrier; start
    //    the copy of the next k; softmax; wait for v, and not for the next k; barrier; p v.
    // 3. No copy is left behind at the end.
}
