// Nobody waits for the bytes of a tensor copy.
//
// arch: compute_90a
// launch: grid=1 block=64 pass=1,2
// args: i32[256]=iota tensormap{0,16x16,box=8x8} i32[64]=zeros
// bug: shared race

#include "hopper.cuh"

// Copies the box of a matrix whose first element is in this column and row.
__device__ __forceinline__ void load_box(void* to, const TensorMap& map, int column, int row, Barrier* barrier) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
        ::"r"(shared_address(to)), "l"(&map), "r"(column), "r"(row), "r"(shared_address(barrier)) : "memory");  // BUG
}

extern "C" __global__ void reverse(const __grid_constant__ TensorMap matrix, int* out) {
    __shared__ alignas(128) int tile[64];
    __shared__ Barrier full;
    int t = threadIdx.x;
    tile[t] = -1;
    if (t == 0) mbarrier_init(&full, 1);
    fence_proxy_async();  // so that the copy comes behind the stores and finds the barrier
    __syncthreads();
    if (t == 0) {
        mbarrier_arrive_expect_tx(&full, sizeof(tile));
        load_box(tile, matrix, 8, 4, &full);
    }
    out[t] = tile[63 - t];  // BUG
}
