// Scale and mask, in place, for the modes that keep their scores: scores = scale * scores + mask, and -inf where a key is
// hidden from a query.
//
// Idea: what stage 2's scale_and_mask.cu would have to be with every mask: one block per row of scores, whose threads stride
// along the row, and ask mask.cuh about each score, as the fused kernels do in tiles that are partly seen.
//
// Grid:   x = B * H * nq, one block per row.
// Block:  (THREADS) = (128).
// Shared: none.
// Reads:  scores, mask, blocks. Writes: scores.
// Since stage 2: a band of diagonals instead of the causal mask alone; the block mask.
//
// launch: grid=200 block=128
// args: f32[26000]=random f32[13000]=random u32[2]={5,6}
// args: {{i64=0,0,0}, {i64=0,0,0}, {i64=0,0,0}, {i64=0,0,0}, {i64=0,0,130}, {i64=0,0,1},
// args:  i32=2,1, 100,130, 64, -100,30, f32=0.125}

#include "mask.cuh"
#include "prelude.cuh"
#include "problem.cuh"

constexpr int THREADS = 128;

// ANCHOR: kernel
extern "C" __global__ void __launch_bounds__(THREADS) mask_scores(
    float* scores,             // [B, H, nq, nk] f32, packed
    const float* mask,         // [B, H, nq, nk] f32, or null
    const unsigned* blocks,    // [B, H, ceil(nq / 64), words] u32, or null
    Problem problem
) {
    const int i = blockIdx.x % problem.nq;
    const int matrix = blockIdx.x / problem.nq;
    const Mask masks(mask, nullptr, blocks, problem, matrix / problem.heads, matrix % problem.heads);
    float* row = scores + static_cast<long long>(blockIdx.x) * problem.nk;
    for (int j = threadIdx.x; j < problem.nk; j += THREADS) {
        row[j] = masks.masked(row[j] * problem.scale, i, j);
    }
}
// ANCHOR_END: kernel
