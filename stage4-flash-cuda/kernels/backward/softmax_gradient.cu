// The gradient of scores in memory, from their weights and the gradients of the weights: the step
// of the naive backward pass that stage 2 has no kernel for.
//
//     ds = scale * p * (dp - sum over j of p dp)
//
// The products that follow it sum over queries, too, and stage 2 multiplies rows: so p and ds are
// also stored transposed.
//
// Grid:   x = ceil(rows / 8).
// Block:  (256). A warp has a row.
// Shared: none.
// Reads:  p and dp twice. Writes: ds over dp, and both transposed tensors, once.
//
// What limits it now: device memory, as of all steps that keep scores there.
//
// launch: grid=2 block=256
// args: f32[195]=random f32[195]=random f32[195]=uninit f32[195]=uninit
// args: i64=15 i32=5 i32=13 f32=0.125
#include "prelude.cuh"

constexpr int THREADS = 256;

extern "C" __global__ void __launch_bounds__(THREADS) softmax_gradient(
    const float* p,       // [matrices, nq, nk] f32
    float* ds,            // [matrices, nq, nk] f32: dp before
    float* p_transposed,  // [matrices, nk, nq] f32
    float* ds_transposed, // [matrices, nk, nq] f32
    long long rows,       // matrices * nq
    int nq, int nk, float scale
) {
    const long long row = static_cast<long long>(blockIdx.x) * (THREADS / 32) + threadIdx.x / 32;
    if (row >= rows) return;
    const long long begin = row * nk;
    const long long column = row / nq * nk * nq + row % nq;  // of the transposed matrix, its first element
    float sum = 0.0f;
    for (int j = threadIdx.x % 32; j < nk; j += 32) {
        sum += p[begin + j] * ds[begin + j];
    }
    sum = warp_sum(sum);
    for (int j = threadIdx.x % 32; j < nk; j += 32) {
        const float weight = p[begin + j];
        const float gradient = scale * weight * (ds[begin + j] - sum);
        ds[begin + j] = gradient;
        p_transposed[column + static_cast<long long>(j) * nq] = weight;
        ds_transposed[column + static_cast<long long>(j) * nq] = gradient;
    }
}
