// The threads fill a tile again when the bulk copy has read it.
//
// arch: compute_90a
// launch: grid=1 block=64
// args: i32[64]=iota i32[128]=zeros
// bug: none
// expect 1: i32 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36
// expect 1: i32 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63 0 2 4 6 8 10 12 14
// expect 1: i32 16 18 20 22 24 26 28 30 32 34 36 38 40 42 44 46 48 50 52 54 56 58 60 62 64 66 68 70 72 74 76 78 80
// expect 1: i32 82 84 86 88 90 92 94 96 98 100 102 104 106 108 110 112 114 116 118 120 122 124 126

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
        bulk_wait_group_read<0>();  // so that no thread overwrites what the copy still reads
    }
    __syncthreads();
    tile[t] = 2 * in[t];
    fence_proxy_async();
    __syncthreads();
    if (t == 0) {
        bulk_store(out + 64, tile, sizeof(tile));
        bulk_commit_group();
        bulk_wait_group_read<0>();
    }
}
