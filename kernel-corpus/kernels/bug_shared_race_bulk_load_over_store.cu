// The next tile is copied to the place from which the one before is still being stored.
//
// arch: compute_90a
// launch: grid=1 block=64
// args: i32[192]=iota i32[192]=zeros
// bug: shared race

#include "hopper.cuh"

// Copies contiguous bytes.
__device__ __forceinline__ void load_tile(void* to, const void* from, unsigned bytes, Barrier* barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 ::"r"(shared_address(to)), "l"(__cvta_generic_to_global(from)), "r"(bytes),
                 "r"(shared_address(barrier)) : "memory");  // BUG
}

// Copies contiguous bytes.
__device__ __forceinline__ void store_tile(void* to, const void* from, unsigned bytes) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
                 ::"l"(__cvta_generic_to_global(to)), "r"(shared_address(from)), "r"(bytes) : "memory");  // BUG
}

extern "C" __global__ void increment(const int* in, int* out) {
    __shared__ alignas(16) int tile[64];
    __shared__ Barrier full;
    int t = threadIdx.x;
    if (t == 0) {
        mbarrier_init(&full, 1);
        fence_mbarrier_init();
    }
    __syncthreads();
    for (int round = 0; round < 3; round++) {
        if (t == 0) {
            mbarrier_arrive_expect_tx(&full, sizeof(tile));
            load_tile(tile, in + 64 * round, sizeof(tile), &full);
        }
        mbarrier_wait(&full, round % 2);
        tile[t]++;
        fence_proxy_async();
        __syncthreads();  // the tile is as it is to be stored
        if (t == 0) {
            store_tile(out + 64 * round, tile, sizeof(tile));
            bulk_commit_group();
        }
    }
    if (t == 0) bulk_wait_group_read<0>();
}
