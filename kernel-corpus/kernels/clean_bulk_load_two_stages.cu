// Two copies fill two tiles; each tile has its barrier.
//
// arch: compute_90a
// launch: grid=1 block=64
// args: i32[128]=iota i32[128]=zeros
// bug: none
// expect 1: i32 63 62 61 60 59 58 57 56 55 54 53 52 51 50 49 48 47 46 45 44 43 42 41 40 39 38 37 36 35 34 33 32 31
// expect 1: i32 30 29 28 27 26 25 24 23 22 21 20 19 18 17 16 15 14 13 12 11 10 9 8 7 6 5 4 3 2 1 0 127 126 125 124
// expect 1: i32 123 122 121 120 119 118 117 116 115 114 113 112 111 110 109 108 107 106 105 104 103 102 101 100 99
// expect 1: i32 98 97 96 95 94 93 92 91 90 89 88 87 86 85 84 83 82 81 80 79 78 77 76 75 74 73 72 71 70 69 68 67 66
// expect 1: i32 65 64

#include "hopper.cuh"

extern "C" __global__ void reverse(const int* in, int* out) {
    __shared__ alignas(16) int tile[2][64];
    __shared__ Barrier full[2];
    int t = threadIdx.x;
    for (int stage = 0; stage < 2; stage++) {
        tile[stage][t] = -1;
        if (t == 0) mbarrier_init(&full[stage], 1);
    }
    fence_proxy_async();  // so that the copies come behind the stores and find the barriers
    __syncthreads();
    for (int stage = 0; stage < 2 && t == 0; stage++) {
        mbarrier_arrive_expect_tx(&full[stage], 256);
        bulk_load(tile[stage], in + 64 * stage, 256, &full[stage]);
    }
    for (int stage = 0; stage < 2; stage++) {
        mbarrier_wait(&full[stage], 0);
        out[64 * stage + t] = tile[stage][63 - t];
    }
}
