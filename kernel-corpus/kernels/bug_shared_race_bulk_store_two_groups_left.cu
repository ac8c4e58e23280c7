// Two tiles take turns, but the wait leaves two stores in flight, one from the tile that is filled
// next.
//
// arch: compute_90a
// launch: grid=1 block=64
// args: i32[64]=iota i32[256]=zeros
// bug: shared race

#include "hopper.cuh"

extern "C" __global__ void multiples(const int* in, int* out) {
    __shared__ alignas(16) int tiles[2][64];
    int t = threadIdx.x;
    for (int round = 0; round < 4; round++) {
        int* tile = tiles[round % 2];
        if (t == 0) bulk_wait_group_read<2>();
        __syncthreads();
        tile[t] = (round + 1) * in[t];  // BUG
        fence_proxy_async();
        __syncthreads();
        if (t == 0) {
            bulk_store(out + 64 * round, tile, 256);
            bulk_commit_group();
        }
    }
    if (t == 0) bulk_wait_group_read<0>();
}
