// A warp copies tiles for two others, which tell it when they have read one.
//
// arch: compute_90a
// launch: grid=1 block=96
// args: i32[192]=iota i32[192]=zeros
// bug: none
// expect 1: i32 63 62 61 60 59 58 57 56 55 54 53 52 51 50 49 48 47 46 45 44 43 42 41 40 39 38 37 36 35 34 33 32 31
// expect 1: i32 30 29 28 27 26 25 24 23 22 21 20 19 18 17 16 15 14 13 12 11 10 9 8 7 6 5 4 3 2 1 0 127 126 125 124
// expect 1: i32 123 122 121 120 119 118 117 116 115 114 113 112 111 110 109 108 107 106 105 104 103 102 101 100 99
// expect 1: i32 98 97 96 95 94 93 92 91 90 89 88 87 86 85 84 83 82 81 80 79 78 77 76 75 74 73 72 71 70 69 68 67 66
// expect 1: i32 65 64 191 190 189 188 187 186 185 184 183 182 181 180 179 178 177 176 175 174 173 172 171 170 169
// expect 1: i32 168 167 166 165 164 163 162 161 160 159 158 157 156 155 154 153 152 151 150 149 148 147 146 145 144
// expect 1: i32 143 142 141 140 139 138 137 136 135 134 133 132 131 130 129 128

#include "hopper.cuh"

// Waits until the phase of this parity is over.
__device__ __forceinline__ void wait_for_phase(Barrier* barrier, unsigned parity) {
    unsigned over;
    do {
        asm volatile(
            "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
            : "=r"(over) : "r"(shared_address(barrier)), "r"(parity) : "memory");
    } while (!over);
}

extern "C" __global__ void reverse(const int* in, int* out) {
    __shared__ alignas(16) int tile[64];
    __shared__ Barrier full, empty;
    int t = threadIdx.x;
    if (t == 0) {
        mbarrier_init(&full, 1);
        mbarrier_init(&empty, 64);
        fence_mbarrier_init();
    }
    __syncthreads();
    for (int round = 0; round < 3; round++) {
        if (t == 64) {  // the producer
            wait_for_phase(&empty, round % 2 ^ 1);  // the phase before the first one counts as over
            mbarrier_arrive_expect_tx(&full, sizeof(tile));
            bulk_load(tile, in + 64 * round, sizeof(tile), &full);
        }
        if (t < 64) {
            wait_for_phase(&full, round % 2);
            out[64 * round + t] = tile[63 - t];
            mbarrier_arrive(&empty);
        }
    }
}
