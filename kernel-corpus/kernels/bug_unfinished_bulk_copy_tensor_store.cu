// The block ends while a tensor copy may still read its shared memory.
//
// arch: compute_90a
// launch: grid=1 block=64 pass=0,2
// args: i32[64]=iota i32[256]=zeros tensormap{1,16x16,box=8x8}
// bug: unfinished bulk copy

#include "hopper.cuh"

// Copies to the box of a matrix whose first element is in this column and row.
__device__ __forceinline__ void store_box(const TensorMap& map, int column, int row, const void* from) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];"
                 ::"l"(&map), "r"(column), "r"(row), "r"(shared_address(from)) : "memory");  // BUG
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
    }
}  // BUG
