// A tile whose halves two blocks load, each for both; both expect the bytes of both halves before
// any comes.
//
// arch: compute_90a
// launch: grid=4 block=64
// args: i32[128]=iota i32[256]=zeros
// bug: none
// expect 1: i32 63 62 61 60 59 58 57 56 55 54 53 52 51 50 49 48 47 46 45 44 43 42 41 40 39 38 37 36 35 34 33 32 31
// expect 1: i32 30 29 28 27 26 25 24 23 22 21 20 19 18 17 16 15 14 13 12 11 10 9 8 7 6 5 4 3 2 1 0 63 62 61 60 59 58
// expect 1: i32 57 56 55 54 53 52 51 50 49 48 47 46 45 44 43 42 41 40 39 38 37 36 35 34 33 32 31 30 29 28 27 26 25
// expect 1: i32 24 23 22 21 20 19 18 17 16 15 14 13 12 11 10 9 8 7 6 5 4 3 2 1 0 127 126 125 124 123 122 121 120 119
// expect 1: i32 118 117 116 115 114 113 112 111 110 109 108 107 106 105 104 103 102 101 100 99 98 97 96 95 94 93 92
// expect 1: i32 91 90 89 88 87 86 85 84 83 82 81 80 79 78 77 76 75 74 73 72 71 70 69 68 67 66 65 64 127 126 125 124
// expect 1: i32 123 122 121 120 119 118 117 116 115 114 113 112 111 110 109 108 107 106 105 104 103 102 101 100 99
// expect 1: i32 98 97 96 95 94 93 92 91 90 89 88 87 86 85 84 83 82 81 80 79 78 77 76 75 74 73 72 71 70 69 68 67 66
// expect 1: i32 65 64

#include "cluster.cuh"

// Copies contiguous bytes to the same place in each block of the mask.
__device__ __forceinline__ void load_for_all(void* to, const void* from, unsigned bytes, Barrier* barrier, int mask) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], %4;"
        ::"r"(shared_address(to)), "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(shared_address(barrier)),
        "h"(static_cast<unsigned short>(mask)) : "memory");
}

extern "C" __global__ __cluster_dims__(2, 1, 1) void reverse(const int* in, int* out) {
    __shared__ alignas(16) int tile[64];
    __shared__ Barrier full;
    int t = threadIdx.x, rank = cluster_rank();
    tile[t] = -1;
    if (t == 0) {
        mbarrier_init(&full, 1);
        mbarrier_arrive_expect_tx(&full, sizeof(tile));
    }
    fence_proxy_async();  // so that the copies come behind the stores and find the barrier
    cluster_sync();
    if (t == 0) load_for_all(tile + 32 * rank, in + 64 * (blockIdx.x / 2) + 32 * rank, sizeof(tile) / 2, &full, 3);
    mbarrier_wait_cluster(&full, 0);
    out[64 * blockIdx.x + t] = tile[63 - t];
}
