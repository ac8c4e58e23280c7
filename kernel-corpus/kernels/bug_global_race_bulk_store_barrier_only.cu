// Other threads read what a bulk store writes, behind a barrier that comes when only its source has
// been read.
//
// arch: compute_90a
// launch: grid=1 block=64
// args: i32[64]=iota i32[64]=zeros i32[64]=uninit
// bug: global race

#include "hopper.cuh"

// Copies contiguous bytes.
__device__ __forceinline__ void store_tile(void* to, const void* from, unsigned bytes) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
                 ::"l"(__cvta_generic_to_global(to)), "r"(shared_address(from)), "r"(bytes) : "memory");  // BUG
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
        bulk_wait_group_read<0>();
    }
    __syncthreads();
    sums[t] = out[t] + out[63 - t];  // BUG
}
