// Swizzled tiles: the kernel of mma.cu, whose fragments ldmatrix loads without bank conflicts.
//
// Idea: ldmatrix reads four 8 x 8 tiles of f16, and deals them out as mma.sync takes them; .trans
// transposes v on the way. The 8 rows of such a tile are 16 bytes each. They take one wavefront if
// they lie in different 16 bytes of the 128 of all banks. In plain rows of 128 bytes they all
// lie in the same: so vector c of row r is stored at another place of its row, such as c ^ r % 8.
//
// The task is not solved without ldmatrix, nor if shared memory takes more than 1.5 times the
// wavefronts that it would take without bank conflicts.
//
// Constants: HEAD_DIM, a multiple of 16; from tile() in src/swizzle.rs BLOCK_Q, BLOCK_KV, THREADS.
// Grid:   x = ceil(nq / BLOCK_Q) * B * H.
// Block:  (THREADS).
// Query i sees key j if j < nk and, with the causal mask, j <= i + (nk - nq). A query that sees no
// key has o = 0, lse = -inf.
//
// `cargo gpu check exercises/stage4/kernels/swizzle.cu` looks for races and bad
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

extern "C" __global__ void __launch_bounds__(THREADS) swizzle(
    const Vector* q,  // [B, H, nq, D] f16
    const Vector* k,  // [B, H, nk, D] f16
    const Vector* v,  // [B, H, nk, D] f16
    Vector* o,        // [B, H, nq, D] f16
    float* lse,       // [B, H, nq] f32, or null
    int nq, int nk, float scale, int causal
) {
    // TODO, task 4/swizzle.
    // 1. A function for the place of vector c of row r, for stores and for loads.
    // 2. The kernel of mma.cu, with ldmatrix_x4 for q and k, and ldmatrix_x4_trans for v: the
    //    address of which row does each lane give?
}
