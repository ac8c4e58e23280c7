// The largest logit of each row: the next token of greedy decoding.
//
// Idea: one block per row. A thread keeps the largest of every blockDim.x-th logit, and the block
// folds the threads' results. Of equal logits the one with the smaller index wins, so that the
// result does not depend on the block size.
//
// Grid:   x = n, one block per row.
// Block:  a multiple of 32, at most 1024.
// Shared: 32 * 8 bytes, static.
// Reads:  logits. Writes: tokens; -1 for a row that holds a NaN or whose largest logit is infinite:
//         the host makes an error of it, as of such logits that it draws from.
//
// launch: grid=3 block=64
// args: i32[3]=uninit f32[900]=random i32=300

#include "prelude.cuh"

constexpr int LOADS = 8;  // logits that a thread loads before it compares them

// ANCHOR: fold
// A logit and its index; of a NaN, the index is -1 and the logit does not matter.
struct Best {
    float logit;
    int index;
};

__device__ __forceinline__ Best fold(Best a, Best b) {
    const bool nan = a.index < 0 || b.index < 0;
    const bool second = b.logit > a.logit || (b.logit == a.logit && b.index < a.index);
    return {second ? b.logit : a.logit, nan ? -1 : second ? b.index : a.index};
}

// The best of the warp's 32 lanes, in every lane. All 32 must call it.
__device__ __forceinline__ Best warp_best(Best best) {
    for (int distance = 16; distance > 0; distance /= 2) {
        const Best other = {
            __shfl_xor_sync(0xffffffffu, best.logit, distance),
            __shfl_xor_sync(0xffffffffu, best.index, distance),
        };
        best = fold(best, other);
    }
    return best;
}
// ANCHOR_END: fold

// ANCHOR: kernel
extern "C" __global__ void __launch_bounds__(1024) argmax(
    int* tokens,          // [n] i32
    const float* logits,  // [n, vocab] f32
    int vocab
) {
    __shared__ float logit_smem[32];
    __shared__ int index_smem[32];
    const float* row = logits + static_cast<long long>(blockIdx.x) * vocab;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    Best best = {-INFINITY, vocab};  // less than any logit
    bool nan = false;
    for (int first = threadIdx.x; first < vocab; first += LOADS * blockDim.x) {
        float logit[LOADS];
#pragma unroll
        for (int i = 0; i < LOADS; i++) {
            const int index = first + i * blockDim.x;
            // Behind the last one, it again, with an index that loses against its own.
            logit[i] = row[min(index, vocab - 1)];
        }
#pragma unroll
        for (int i = 0; i < LOADS; i++) {
            nan |= logit[i] != logit[i];
            if (logit[i] > best.logit) {
                best = {logit[i], static_cast<int>(first + i * blockDim.x)};
            }
        }
    }
    if (nan) {
        best.index = -1;
    }
    best = warp_best(best);
    if (lane == 0) {
        logit_smem[warp] = best.logit;
        index_smem[warp] = best.index;
    }
    __syncthreads();  // so that the first warp does not read the best of another before it is stored
    if (warp > 0) {
        return;
    }
    best = {-INFINITY, vocab};
    if (lane < blockDim.x / 32) {
        best = {logit_smem[lane], index_smem[lane]};
    }
    best = warp_best(best);
    if (lane == 0) {
        tokens[blockIdx.x] = fabsf(best.logit) < INFINITY ? best.index : -1;
    }
}
// ANCHOR_END: kernel
