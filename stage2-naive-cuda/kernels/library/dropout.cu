// Dropout, in place: weights or their gradients times 0, or times 1 / (share that is kept).
//
// Idea: one block per query, as in scale_and_mask.cu. A thread has four neighbouring keys at a
// time, which share one call of the generator. philox.cuh says which are kept.
//
// Grid:   x = B * H * nq blocks, one per query.
// Block:  (128).
// Shared: none.
// Reads:  weights. Writes: weights.
//
// launch: grid=100 block=128
// args: f32[7000]=random i32=50 i32=70 i32=0 {i64=1,0, u32=429496730, f32=1.1111112}

#include "stage2-naive-cuda/philox.cuh"

constexpr int THREADS = 128;

extern "C" __global__ void __launch_bounds__(THREADS) dropout(
    float* weights,   // [B * H, nq, nk] f32, or [B * H, nk, nq] if transposed
    int nq, int nk,
    int transposed,   // 0 or 1
    Dropout dropout
) {
    const int i = blockIdx.x % nq;
    const int matrix = blockIdx.x / nq;
    float* row = weights + static_cast<long long>(matrix) * nq * nk + static_cast<long long>(i) * (transposed ? 1 : nk);
    const long long step = transposed ? nq : 1;  // from key to key
    for (int quad = threadIdx.x; 4 * quad < nk; quad += THREADS) {
        const unsigned kept = kept_keys(dropout, matrix, i, quad);
        for (int w = 0; w < 4 && 4 * quad + w < nk; w++) {
            float& weight = row[(4 * quad + w) * step];
            weight = kept >> w & 1 ? weight * dropout.scale : 0.0f;
        }
    }
}
