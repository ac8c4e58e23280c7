// A warp of the last block loads a tile for all four of the cluster, and two warps of each wait
// for it.
//
// arch: compute_90a
// launch: grid=8 block=96
// args: i32[64]=iota i32[512]=zeros
// bug: none
// expect 1: i32 31 30 29 28 27 26 25 24 23 22 21 20 19 18 17 16 15 14 13 12 11 10 9 8 7 6 5 4 3 2 1 0 0 3 6 9 12 15
// expect 1: i32 18 21 24 27 30 33 36 39 42 45 48 51 54 57 60 63 66 69 72 75 78 81 84 87 90 93 31 30 29 28 27 26 25
// expect 1: i32 24 23 22 21 20 19 18 17 16 15 14 13 12 11 10 9 8 7 6 5 4 3 2 1 0 0 3 6 9 12 15 18 21 24 27 30 33 36
// expect 1: i32 39 42 45 48 51 54 57 60 63 66 69 72 75 78 81 84 87 90 93 31 30 29 28 27 26 25 24 23 22 21 20 19 18
// expect 1: i32 17 16 15 14 13 12 11 10 9 8 7 6 5 4 3 2 1 0 0 3 6 9 12 15 18 21 24 27 30 33 36 39 42 45 48 51 54 57
// expect 1: i32 60 63 66 69 72 75 78 81 84 87 90 93 31 30 29 28 27 26 25 24 23 22 21 20 19 18 17 16 15 14 13 12 11
// expect 1: i32 10 9 8 7 6 5 4 3 2 1 0 0 3 6 9 12 15 18 21 24 27 30 33 36 39 42 45 48 51 54 57 60 63 66 69 72 75 78
// expect 1: i32 81 84 87 90 93 63 62 61 60 59 58 57 56 55 54 53 52 51 50 49 48 47 46 45 44 43 42 41 40 39 38 37 36
// expect 1: i32 35 34 33 32 96 99 102 105 108 111 114 117 120 123 126 129 132 135 138 141 144 147 150 153 156 159
// expect 1: i32 162 165 168 171 174 177 180 183 186 189 63 62 61 60 59 58 57 56 55 54 53 52 51 50 49 48 47 46 45 44
// expect 1: i32 43 42 41 40 39 38 37 36 35 34 33 32 96 99 102 105 108 111 114 117 120 123 126 129 132 135 138 141
// expect 1: i32 144 147 150 153 156 159 162 165 168 171 174 177 180 183 186 189 63 62 61 60 59 58 57 56 55 54 53 52
// expect 1: i32 51 50 49 48 47 46 45 44 43 42 41 40 39 38 37 36 35 34 33 32 96 99 102 105 108 111 114 117 120 123
// expect 1: i32 126 129 132 135 138 141 144 147 150 153 156 159 162 165 168 171 174 177 180 183 186 189 63 62 61 60
// expect 1: i32 59 58 57 56 55 54 53 52 51 50 49 48 47 46 45 44 43 42 41 40 39 38 37 36 35 34 33 32 96 99 102 105
// expect 1: i32 108 111 114 117 120 123 126 129 132 135 138 141 144 147 150 153 156 159 162 165 168 171 174 177 180
// expect 1: i32 183 186 189

#include "cluster.cuh"

// Copies contiguous bytes to the same place in each block of the mask.
__device__ __forceinline__ void load_for_all(void* to, const void* from, unsigned bytes, Barrier* barrier, int mask) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], %4;"
        ::"r"(shared_address(to)), "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(shared_address(barrier)),
        "h"(static_cast<unsigned short>(mask)) : "memory");
}

extern "C" __global__ __cluster_dims__(4, 1, 1) void reverse(const int* in, int* out) {
    __shared__ alignas(16) int tile[32];
    __shared__ Barrier full;
    int t = threadIdx.x;
    if (t == 0) mbarrier_init(&full, 1);
    if (t < 32) tile[t] = -1;
    fence_proxy_async();  // so that the copy comes behind the stores and finds the barrier
    cluster_sync();
    if (t == 64) {
        mbarrier_arrive_expect_tx(&full, sizeof(tile));
        if (cluster_rank() == 3) load_for_all(tile, in + 32 * (blockIdx.x / 4), sizeof(tile), &full, 0xf);
    }
    if (t < 32) {
        mbarrier_wait_cluster(&full, 0);
        out[64 * blockIdx.x + t] = tile[31 - t];
    } else if (t < 64) {
        mbarrier_wait_cluster(&full, 0);
        out[64 * blockIdx.x + t] = 3 * tile[t - 32];
    }
}
