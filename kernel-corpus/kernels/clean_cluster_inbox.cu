// Each thread stores into the other block's shared memory, and arrives at that block's barrier.
//
// arch: compute_90a
// launch: grid=4 block=32
// args: i32[128]=iota i32[128]=zeros
// bug: none
// expect 1: i32 63 62 61 60 59 58 57 56 55 54 53 52 51 50 49 48 47 46 45 44 43 42 41 40 39 38 37 36 35 34 33 32 31
// expect 1: i32 30 29 28 27 26 25 24 23 22 21 20 19 18 17 16 15 14 13 12 11 10 9 8 7 6 5 4 3 2 1 0 127 126 125 124
// expect 1: i32 123 122 121 120 119 118 117 116 115 114 113 112 111 110 109 108 107 106 105 104 103 102 101 100 99
// expect 1: i32 98 97 96 95 94 93 92 91 90 89 88 87 86 85 84 83 82 81 80 79 78 77 76 75 74 73 72 71 70 69 68 67 66
// expect 1: i32 65 64

#include "cluster.cuh"

// Arrives at the barrier of the block of this rank.
__device__ __forceinline__ void arrive_on(Barrier* barrier, unsigned rank) {
    asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];"
                 ::"r"(shared_address_on(barrier, rank)) : "memory");
}

extern "C" __global__ __cluster_dims__(2, 1, 1) void swap(const int* in, int* out) {
    __shared__ int inbox[32];
    __shared__ Barrier full;
    int t = threadIdx.x, rank = cluster_rank();
    inbox[t] = 0;
    if (t == 0) {
        mbarrier_init(&full, 32);
        fence_mbarrier_init();
    }
    cluster_sync();
    on_rank(inbox, rank ^ 1)[t] = in[32 * blockIdx.x + t];
    arrive_on(&full, rank ^ 1);
    mbarrier_wait_cluster(&full, 0);
    out[32 * blockIdx.x + t] = inbox[31 - t];
    cluster_sync();
}
