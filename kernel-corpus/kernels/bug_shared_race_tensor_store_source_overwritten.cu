// The threads fill a tile again while a tensor copy may still read it.
//
// arch: compute_90a
// launch: grid=1 block=64 pass=0,2
// args: i32[64]=iota i32[256]=zeros tensormap{1,16x16,box=8x8}
// bug: shared race

#include "hopper.cuh"

extern "C" __global__ void multiples(const int* in, const __grid_constant__ TensorMap matrix) {
    __shared__ alignas(128) int tile[64];
    int t = threadIdx.x;
    tile[t] = in[t];
    fence_proxy_async();
    __syncthreads();
    if (t == 0) {
        tensor_store(matrix, 0, 4, tile);
        bulk_commit_group();
    }
    __syncthreads();
    tile[t] = 2 * in[t];  // BUG
    fence_proxy_async();
    __syncthreads();
    if (t == 0) {
        tensor_store(matrix, 8, 4, tile);
        bulk_commit_group();
        bulk_wait_group_read<0>();
    }
}
