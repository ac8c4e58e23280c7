// Other threads read what a bulk store has written: its thread waits for that, and a barrier tells
// the others.
//
// arch: compute_90a
// launch: grid=1 block=64
// args: i32[64]=iota i32[64]=zeros i32[64]=uninit
// bug: none
// expect 1: i32 0 3 6 9 12 15 18 21 24 27 30 33 36 39 42 45 48 51 54 57 60 63 66 69 72 75 78 81 84 87 90 93 96 99
// expect 1: i32 102 105 108 111 114 117 120 123 126 129 132 135 138 141 144 147 150 153 156 159 162 165 168 171 174
// expect 1: i32 177 180 183 186 189
// expect 2: i32 189 189 189 189 189 189 189 189 189 189 189 189 189 189 189 189 189 189 189 189 189 189 189 189 189
// expect 2: i32 189 189 189 189 189 189 189 189 189 189 189 189 189 189 189 189 189 189 189 189 189 189 189 189 189
// expect 2: i32 189 189 189 189 189 189 189 189 189 189 189 189 189 189

#include "hopper.cuh"

// Copies contiguous bytes.
__device__ __forceinline__ void store_tile(void* to, const void* from, unsigned bytes) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
                 ::"l"(__cvta_generic_to_global(to)), "r"(shared_address(from)), "r"(bytes) : "memory");
}

extern "C" __global__ void hands_over(const int* in, int* out, int* sums) {
    __shared__ alignas(16) int tile[64];
    int t = threadIdx.x;
    tile[t] = 3 * in[t];
    fence_proxy_async();
    __syncthreads();
    if (t == 0) {
        store_tile(out, tile, sizeof(tile));
        bulk_commit_group();
        bulk_wait_group<0>();
    }
    __syncthreads();
    sums[t] = out[t] + out[63 - t];
}
