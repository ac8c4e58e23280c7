// Scale and mask of the library, in place: scores = scale * scores + mask, and -inf where a key is
// hidden from a query.
//
// Idea: ../scale_and_mask.cu, with a mask that is added.
//
// Grid:   x = B * H * nq blocks, one per row.
// Block:  (128).
// Shared: none.
// Reads:  scores, mask. Writes: scores.
//
// launch: grid=100 block=128
// args: f32[7000]=random f32[3500]=random {i64=0,0,70} i32=2 i32=50 i32=70 f32=0.125 i32=1

#include "prelude.cuh"

struct Strides {  // in elements; columns are contiguous
    long long batch, head, row;
};

constexpr int THREADS = 128;

extern "C" __global__ void __launch_bounds__(THREADS) scale_and_mask(
    float* scores,         // [B, H, nq, nk] f32, packed
    const float* mask,     // [B, H, nq, nk] f32, or null
    Strides mask_strides,  // 0 where the mask is the same for all batches or all heads
    int heads,             // H
    int nq, int nk,
    float scale,
    int causal             // 0 or 1
) {
    const int i = blockIdx.x % nq;
    const int matrix = blockIdx.x / nq;
    const int batch = matrix / heads;
    const int head = matrix % heads;
    const int seen = causal ? i + 1 + nk - nq : nk;  // keys that this query sees; may be negative

    float* row = scores + (long long)blockIdx.x * nk;
    const float* mask_row =
        mask + batch * mask_strides.batch + head * mask_strides.head + i * mask_strides.row;
    for (int j = threadIdx.x; j < nk; j += THREADS) {
        float score = row[j] * scale;
        if (mask != nullptr) {
            score += mask_row[j];
        }
        row[j] = j < seen ? score : -INFINITY;
    }
}
