// Rotary position embedding of queries and keys, half-split, in place.
//
// Idea: with a = position * inverse_frequencies[i], elements i and i + D/2 of a head become x[i]
// cos a - x[i + D/2] sin a and x[i + D/2] cos a + x[i] sin a. All heads of a token have the same
// angles: a block computes them once, in shared memory. The angle is rounded to f32, as in
// transformers; sine and cosine reduce it exactly, however large it is.
//
// Grid:   x = n, one block per token.
// Block:  (128).
// Shared: 2 * MAX_HALF * 4 bytes, static.
// Reads:  inverse_frequencies, positions; the first `heads` heads of each row of
//         qkv. Writes: the same heads.
// Constants: ELEMENT (f32, f16, bf16), the type of qkv.
// A row is [queries | keys | values]: with heads = H + H_kv, the values stay as they are.
//
// launch: grid=3 block=128
// define: ELEMENT=f32
// args: f32[360]=random f32[12]=random i32[3]={0,7,100000} f32=1 i32=4 i32=24 i32=120

#include "stage5-decode/library/cache.cuh"

constexpr int MAX_HALF = 128;  // half of the largest head dimension

// ANCHOR: kernel
extern "C" __global__ void __launch_bounds__(128) rope(
    Bits* qkv,                         // [n, row]
    const float* inverse_frequencies,  // [D / 2] f32, radians per position
    const int* positions,              // [n] i32
    float factor,                      // of sine and cosine
    int heads,                         // H + H_kv
    int head_dim,                      // D
    int row                            // (H + 2 H_kv) D
) {
    __shared__ float cos_smem[MAX_HALF], sin_smem[MAX_HALF];
    const int half = head_dim / 2;
    const float position = static_cast<float>(positions[blockIdx.x]);

    // ANCHOR: angles
    for (int i = threadIdx.x; i < half; i += blockDim.x) {
        const float angle = position * inverse_frequencies[i];
        cos_smem[i] = cosf(angle) * factor;
        sin_smem[i] = sinf(angle) * factor;
    }
    // ANCHOR_END: angles
    __syncthreads();  // so that no thread reads an angle before it is stored

    // ANCHOR: rotate
    Bits* token = qkv + static_cast<long long>(blockIdx.x) * row;
    for (int pair = threadIdx.x; pair < heads * half; pair += blockDim.x) {
        const int i = pair % half;
        Bits* x = token + pair / half * head_dim + i;
        const float lower = ELEMENT::widen(x[0]), upper = ELEMENT::widen(x[half]);
        x[0] = ELEMENT::narrow(lower * cos_smem[i] - upper * sin_smem[i]);
        x[half] = ELEMENT::narrow(upper * cos_smem[i] + lower * sin_smem[i]);
    }
    // ANCHOR_END: rotate
}
// ANCHOR_END: kernel
