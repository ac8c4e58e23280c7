// A matrix of 4 by 16 as a tensor of three dimensions: its left half, then its right half.
//
// arch: compute_90a
// launch: grid=1 block=64 pass=1,2
// args: i32[64]=iota tensormap{0,8x4x2,strides=64x32,box=8x4x2} i32[64]=zeros
// bug: none
// expect 2: i32 0 1 2 3 4 5 6 7 16 17 18 19 20 21 22 23 32 33 34 35 36 37 38 39 48 49 50 51 52 53 54 55 8 9 10 11 12
// expect 2: i32 13 14 15 24 25 26 27 28 29 30 31 40 41 42 43 44 45 46 47 56 57 58 59 60 61 62 63

#include "hopper.cuh"

// Copies a box of three dimensions, from its beginning.
__device__ __forceinline__ void load_box(void* to, const TensorMap& map, Barrier* barrier) {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
        "[%0], [%1, {%2, %2, %2}], [%3];"
        ::"r"(shared_address(to)), "l"(&map), "r"(0), "r"(shared_address(barrier)) : "memory");
}

extern "C" __global__ void halves(const __grid_constant__ TensorMap matrix, int* out) {
    __shared__ alignas(128) int tile[2][4][8];  // half of the columns, row, column
    __shared__ Barrier full;
    int t = threadIdx.x;
    if (t == 0) {
        mbarrier_init(&full, 1);
        fence_mbarrier_init();
        mbarrier_arrive_expect_tx(&full, sizeof(tile));
        load_box(tile, matrix, &full);
    }
    __syncthreads();
    mbarrier_wait(&full, 0);
    out[t] = tile[t / 32][t / 8 % 4][t % 8];
}
