// Weights from scores, and the gradients of scores, in f32, for all kernels of the backward pass.

#pragma once

#include "prelude.cuh"

constexpr float LOG2_E = 1.4426950408889634f;

// The log-sum-exp by which the weights of a row are computed. A row that sees no key has -inf:
// with +inf its weights are 0.
__device__ __forceinline__ float finite_or_positive(float lse) {
    return lse == -INFINITY ? INFINITY : lse;
}

// exp(unit * score - lse): 0 for a score of -inf.
__device__ __forceinline__ float weight(float score, float unit, float lse) {
    return ex2_approx_ftz_f32((score * unit - lse) * LOG2_E);
}

// The gradient of a score: p * (dp - delta). 0 where p is, whatever dp is.
__device__ __forceinline__ float score_gradient(float p, float dp, float delta) {
    return p == 0.0f ? 0.0f : p * (dp - delta);
}
