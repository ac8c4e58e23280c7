// The threads fill a tile again while a bulk copy may still read it.
//
// arch: compute_90a
// launch: grid=1 block=64
// args: i32[64]=iota i32[128]=zeros
// bug: shared race

#include "hopper.cuh"

extern "C" __global__ void multiples(const int* in, int* out) {
    __shared__ alignas(16) int tile[64];
    int t = threadIdx.x;
    tile[t] = in[t];
    fence_proxy_async();
    __syncthreads();
    if (t == 0) {
        bulk_store(out, tile, sizeof(tile));
        bulk_commit_group();
    }
    __syncthreads();
    tile[t] = 2 * in[t];  // BUG
    fence_proxy_async();
    __syncthreads();
    if (t == 0) {
        bulk_store(out + 64, tile, sizeof(tile));
        bulk_commit_group();
        bulk_wait_group_read<0>();
    }
}
