// Two threads add a tile to the same numbers in device memory, by bulk reductions.
//
// arch: compute_90a
// launch: grid=1 block=64
// args: i32[64]=iota i32[64]=iota
// bug: none
// expect 1: i32 126 125 124 123 122 121 120 119 118 117 116 115 114 113 112 111 110 109 108 107 106 105 104 103 102
// expect 1: i32 101 100 99 98 97 96 95 94 93 92 91 90 89 88 87 86 85 84 83 82 81 80 79 78 77 76 75 74 73 72 71 70 69
// expect 1: i32 68 67 66 65 64 63

#include "hopper.cuh"

// Adds contiguous numbers.
__device__ __forceinline__ void add_tile(int* to, const int* from, unsigned bytes) {
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.s32 [%0], [%1], %2;"
                 ::"l"(__cvta_generic_to_global(to)), "r"(shared_address(from)), "r"(bytes) : "memory");
}

extern "C" __global__ void add_twice(const int* in, int* out) {
    __shared__ alignas(16) int tile[64];
    int t = threadIdx.x;
    tile[t] = in[63 - t];
    fence_proxy_async();
    __syncthreads();
    if (t % 32 == 0) {  // a thread of each warp adds the tile once
        add_tile(out, tile, sizeof(tile));
        bulk_commit_group();
        bulk_wait_group_read<0>();
    }
}
