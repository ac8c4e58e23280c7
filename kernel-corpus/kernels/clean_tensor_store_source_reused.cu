// The threads fill a tile again when the tensor copy has read it.
//
// arch: compute_90a
// launch: grid=1 block=64 pass=0,2
// args: i32[64]=iota i32[256]=zeros tensormap{1,16x16,box=8x8}
// bug: none
// expect 1: i32 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
// expect 1: i32 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 1 2 3 4 5 6 7 0 2 4 6 8 10 12 14 8 9 10 11 12 13 14 15 16 18 20 22 24
// expect 1: i32 26 28 30 16 17 18 19 20 21 22 23 32 34 36 38 40 42 44 46 24 25 26 27 28 29 30 31 48 50 52 54 56 58
// expect 1: i32 60 62 32 33 34 35 36 37 38 39 64 66 68 70 72 74 76 78 40 41 42 43 44 45 46 47 80 82 84 86 88 90 92
// expect 1: i32 94 48 49 50 51 52 53 54 55 96 98 100 102 104 106 108 110 56 57 58 59 60 61 62 63 112 114 116 118 120
// expect 1: i32 122 124 126 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
// expect 1: i32 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0

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
        bulk_wait_group_read<0>();  // so that no thread overwrites what the copy still reads
    }
    __syncthreads();
    tile[t] = 2 * in[t];
    fence_proxy_async();
    __syncthreads();
    if (t == 0) {
        tensor_store(matrix, 8, 4, tile);
        bulk_commit_group();
        bulk_wait_group_read<0>();
    }
}
