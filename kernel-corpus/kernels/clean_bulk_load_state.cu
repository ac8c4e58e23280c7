// All threads arrive, one with the bytes of a copy, and wait for the phase of their arrival.
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
    __shared__ alignas(16) int tile[64];
    __shared__ Barrier full;
    int t = threadIdx.x;
    if (t == 0) {
        mbarrier_init(&full, 64);
        fence_mbarrier_init();
    }
    __syncthreads();
    for (int round = 0; round < 2; round++) {
        unsigned long long phase;  // the one that the arrival belongs to
        if (t == 0) {
            bulk_load(tile, in + 64 * round, sizeof(tile), &full);
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 %0, [%1], 256;"
                         : "=l"(phase) : "r"(shared_address(&full)) : "memory");
        } else {
            asm volatile("mbarrier.arrive.shared::cta.b64 %0, [%1];"
                         : "=l"(phase) : "r"(shared_address(&full)) : "memory");
        }
        unsigned over;
        do {
            asm volatile(
                "{ .reg .pred p; mbarrier.try_wait.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                : "=r"(over) : "r"(shared_address(&full)), "l"(phase) : "memory");
        } while (!over);
        out[64 * round + t] = tile[63 - t];
        __syncthreads();  // so that the next copy does not overwrite what a thread still reads
    }
}
