// Frees a tile for the previous block although the copy to the next one may still read it.
//
// arch: compute_90a
// launch: grid=8 block=64
// args: i32[512]=iota i32[512]=zeros
// bug: shared race

#include "cluster.cuh"

// Copies contiguous bytes into the shared memory of the block of this rank.
__device__ __forceinline__ void send(void* to, const void* from, unsigned bytes, Barrier* barrier, unsigned rank) {
    asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 ::"r"(shared_address_on(to, rank)), "r"(shared_address(from)), "r"(bytes),
                 "r"(shared_address_on(barrier, rank)) : "memory");  // BUG
}

extern "C" __global__ __cluster_dims__(4, 1, 1) void sums(const int* in, int* out) {
    __shared__ alignas(16) int tile[2][64];
    __shared__ Barrier full[2], received, free;
    int t = threadIdx.x, rank = cluster_rank(), next = (rank + 1) % 4, previous = (rank + 3) % 4, sum = 0;
    if (t == 0) {
        for (Barrier* barrier : {&full[0], &full[1], &received, &free}) mbarrier_init(barrier, 1);
        fence_mbarrier_init();
    }
    tile[0][t] = in[64 * blockIdx.x + t];
    fence_proxy_async();
    cluster_sync();
    for (int step = 0; step < 4; step++) {
        int now = step % 2, then = now ^ 1;
        if (step > 0) {
            mbarrier_wait_cluster(&full[now], (step - 1) / 2);
            if (t == 0) mbarrier_arrive_on(&received, previous);
        }
        sum += (step + 1) * tile[now][63 - t];
        if (step == 3) break;
        __syncthreads();  // all threads have read it
        if (t == 0) {
            mbarrier_arrive_expect_tx(&full[then], sizeof(tile[then]));
            mbarrier_arrive_on(&free, previous);
            mbarrier_wait_cluster(&free, step % 2);
            send(tile[then], tile[now], sizeof(tile[now]), &full[then], next);
        }
    }
    out[64 * blockIdx.x + t] = sum;
    cluster_sync();
}
