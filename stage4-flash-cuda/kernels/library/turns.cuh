// Turns: blocks that add to the same sums do so one after the other, in an order that is always the
// same, so that every run gives the same bits.
//
// FlashAttention's deterministic backward pass takes turns, too
// (https://github.com/Dao-AILab/flash-attention, "deterministic").

#pragma once

#include "prelude.cuh"

__device__ __forceinline__ unsigned ld_acquire_gpu_u32(const unsigned* address) {
    unsigned value;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(address) : "memory");
    return value;
}

__device__ __forceinline__ void st_release_gpu_u32(unsigned* address, unsigned value) {
    asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(address), "r"(value) : "memory");
}

// Numbers that begin at 0: how many blocks have begun, and for each tile of queries of each matrix
// how many blocks have had their turn.
struct Turns {
    unsigned* numbers;  // [1 + B * H * ceil(nq / BLOCK_Q)]

    // The number of this block, in the order in which blocks begin. A block waits for lower numbers
    // only, so none waits for a block that needs its place, in whatever order they begin.
    __device__ unsigned number_of_block() const {
        __shared__ unsigned number;
        if (threadIdx.x == 0) {
            number = atomicAdd(numbers, 1);
        }
        __syncthreads();
        return number;
    }

    // Waits until `own` blocks have had their turn at a tile. What they stored is visible to this
    // thread then, and to those that a barrier follows for.
    __device__ void wait(long long tile, int own) const {
        while (ld_acquire_gpu_u32(numbers + 1 + tile) != own) {
            __nanosleep(32);
        }
    }

    // Ends this block's turn. Before it comes a barrier, behind what the block has stored.
    __device__ void pass(long long tile, int own) const { st_release_gpu_u32(numbers + 1 + tile, own + 1); }
};
