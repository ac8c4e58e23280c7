// A bulk reduction reads a tile that ordinary stores have filled, with no proxy fence between.
//
// arch: compute_90a
// launch: grid=1 block=64
// args: i32[64]=iota i32[64]=iota
// bug: missing proxy fence

#include "hopper.cuh"

// Adds contiguous numbers.
__device__ __forceinline__ void add_tile(int* to, const int* from, unsigned bytes) {
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.s32 [%0], [%1], %2;"
                 ::"l"(__cvta_generic_to_global(to)), "r"(shared_address(from)), "r"(bytes) : "memory");  // BUG
}

extern "C" __global__ void add_twice(const int* in, int* out) {
    __shared__ alignas(16) int tile[64];
    int t = threadIdx.x;
    tile[t] = in[63 - t];  // BUG
    __syncthreads();
    if (t % 32 == 0) {  // a thread of each warp adds the tile once
        add_tile(out, tile, sizeof(tile));
        bulk_commit_group();
        bulk_wait_group_read<0>();
    }
}
