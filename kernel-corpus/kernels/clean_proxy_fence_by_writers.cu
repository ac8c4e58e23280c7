// Each thread stores an element and fences it; behind the barrier one thread stores the tile by a
// bulk copy.
//
// arch: compute_90a
// launch: grid=1 block=64
// args: i32[64]=iota i32[64]=zeros
// bug: none
// expect 1: i32 189 186 183 180 177 174 171 168 165 162 159 156 153 150 147 144 141 138 135 132 129 126 123 120 117
// expect 1: i32 114 111 108 105 102 99 96 93 90 87 84 81 78 75 72 69 66 63 60 57 54 51 48 45 42 39 36 33 30 27 24 21
// expect 1: i32 18 15 12 9 6 3 0

#include "hopper.cuh"

// Copies contiguous bytes.
__device__ __forceinline__ void store_tile(void* to, const void* from, unsigned bytes) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
                 ::"l"(__cvta_generic_to_global(to)), "r"(shared_address(from)), "r"(bytes) : "memory");
}

extern "C" __global__ void triple(const int* in, int* out) {
    __shared__ alignas(16) int tile[64];
    int t = threadIdx.x;
    tile[t] = 3 * in[63 - t];
    fence_proxy_async();
    __syncthreads();
    if (t == 0) {
        store_tile(out, tile, sizeof(tile));
        bulk_commit_group();
        bulk_wait_group_read<0>();
    }
}
