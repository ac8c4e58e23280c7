// Largest error of rows of attention, by the size of their scores: with the weights and the result
// in f16, and with the scores too, in f16 or bf16, as one operation after the other stores them.
//
// Idea: a score that is rounded by r changes its weight by the factor e^r. The larger the scores,
// the larger r. Shown by `gpu trace`, for the book.
// Grid: 1. Block: 32 threads, one warp. Lane i has scores of about 2^(i / 2), which differ by 4.
// Writes: errors[kind][i], the difference from the same rows in f32.
//
// launch: grid=1 block=32
// args: f32[96]=uninit
#include "prelude.cuh"

constexpr unsigned KEYS = 64, ROWS = 16;

struct Same {
    static __device__ float round(float x) { return x; }
};
struct F16 {
    static __device__ float round(float x) { return cvt_f32_f16(cvt_rn_f16_f32(x)); }
};
struct Bf16 {
    static __device__ float round(float x) { return f32_from_bf16(bf16_from_f32(x)); }
};

// A number from -1 to 1 that looks random.
__device__ float noise(unsigned n) {
    n = (n ^ n >> 16) * 0x45d9f3bu;
    n = (n ^ n >> 16) * 0x45d9f3bu;
    return static_cast<float>(n >> 8 & 0xffffu) / 32768.0f - 1.0f;
}

// The score of key j, of about `size`, and its value.
__device__ float score(float size, unsigned row, unsigned j) {
    return size + 2.0f * noise(KEYS * row + j);
}
__device__ float value(unsigned row, unsigned j) {
    return noise(KEYS * (ROWS + row) + j);
}

// o of a row: scores, weights and result are rounded as told. Sums are f32.
template <typename Score, typename Weight, typename Result>
__device__ float attention(float size, unsigned row) {
    float max = -INFINITY, sum = 0.0f, o = 0.0f;
    for (unsigned j = 0; j < KEYS; j++) {
        max = fmaxf(max, Score::round(score(size, row, j)));
    }
    for (unsigned j = 0; j < KEYS; j++) {
        const float p = expf(Score::round(score(size, row, j)) - max);
        sum += p;
        o += Weight::round(p) * value(row, j);
    }
    return Result::round(o / sum);
}

extern "C" __global__ void rounded_attention(float* errors) {  // [3, 32] f32
    const float size = exp2f(0.5f * threadIdx.x);
    float weights_error = 0.0f, f16_error = 0.0f, bf16_error = 0.0f;
    for (unsigned row = 0; row < ROWS; row++) {
        const float right = attention<Same, Same, Same>(size, row);
        weights_error = fmaxf(weights_error, fabsf(attention<Same, F16, F16>(size, row) - right));
        f16_error = fmaxf(f16_error, fabsf(attention<F16, F16, F16>(size, row) - right));
        bf16_error = fmaxf(bf16_error, fabsf(attention<Bf16, Bf16, Bf16>(size, row) - right));
    }
    errors[threadIdx.x] = weights_error;
    errors[32 + threadIdx.x] = f16_error;
    errors[64 + threadIdx.x] = bf16_error;
}
