// A tensor copy stores a tile to a box that leaves the matrix at the right: nothing is written
// there.
//
// arch: compute_90a
// launch: grid=1 block=64 pass=0,2
// args: i32[64]=iota i32[256]=zeros tensormap{1,16x16,box=8x8}
// bug: none
// expect 1: i32 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
// expect 1: i32 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
// expect 1: i32 0 0 0 0 0 0 0 0 189 186 183 180 0 0 0 0 0 0 0 0 0 0 0 0 165 162 159 156 0 0 0 0 0 0 0 0 0 0 0 0 141
// expect 1: i32 138 135 132 0 0 0 0 0 0 0 0 0 0 0 0 117 114 111 108 0 0 0 0 0 0 0 0 0 0 0 0 93 90 87 84 0 0 0 0 0 0
// expect 1: i32 0 0 0 0 0 0 69 66 63 60 0 0 0 0 0 0 0 0 0 0 0 0 45 42 39 36 0 0 0 0 0 0 0 0 0 0 0 0 21 18 15 12 0 0
// expect 1: i32 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0

#include "hopper.cuh"

// Copies to the box of a matrix whose first element is in this column and row.
__device__ __forceinline__ void store_box(const TensorMap& map, int column, int row, const void* from) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];"
                 ::"l"(&map), "r"(column), "r"(row), "r"(shared_address(from)) : "memory");
}

extern "C" __global__ void triple(const int* in, const __grid_constant__ TensorMap matrix) {
    __shared__ alignas(128) int tile[64];
    int t = threadIdx.x;
    tile[t] = 3 * in[63 - t];
    fence_proxy_async();
    __syncthreads();
    if (t == 0) {
        store_box(matrix, 12, 6, tile);
        bulk_commit_group();
        bulk_wait_group_read<0>();
    }
}
