// Rounds f32 to half precision, ties to even.
//
// Idea: a thread rounds 4 neighbours, which it moves as vectors.
//
// Grid:   x = ceil(count / 1024).
// Block:  (256).
// Shared: none.
// Reads:  x. Writes: y. Both are aligned to 16 bytes.
// Constants: ELEMENT (f16, bf16).
//
// launch: grid=2 block=256
// define: ELEMENT=f16
// args: f16[1030]=uninit f32[1030]=random i64=1030
#include "stage5-decode/library/cache.cuh"

struct alignas(16) Floats {
    float x[4];
};

// ANCHOR: kernel
extern "C" __global__ void __launch_bounds__(256) narrow(
    Bits* y,         // [count] f16 or bf16
    const float* x,  // [count] f32
    long long count
) {
    const long long first = 4 * (blockIdx.x * 256ll + threadIdx.x);
    if (first + 4 <= count) {
        const Floats floats = *reinterpret_cast<const Floats*>(x + first);
        Chunk<4 * sizeof(Bits)> chunk;
#pragma unroll
        for (int e = 0; e < 4; e++) {
            chunk.bits[e] = ELEMENT::narrow(floats.x[e]);
        }
        *reinterpret_cast<Chunk<4 * sizeof(Bits)>*>(y + first) = chunk;
    } else {
        for (long long i = first; i < count; i++) {
            y[i] = ELEMENT::narrow(x[i]);
        }
    }
}
// ANCHOR_END: kernel
