// Tiles are copied to shared memory, changed there by ordinary code, and copied back.
//
// arch: compute_90a
// launch: grid=1 block=64
// args: i32[192]=iota i32[192]=zeros
// bug: none
// expect 1: i32 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36
// expect 1: i32 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63 64 65 66 67 68 69
// expect 1: i32 70 71 72 73 74 75 76 77 78 79 80 81 82 83 84 85 86 87 88 89 90 91 92 93 94 95 96 97 98 99 100 101
// expect 1: i32 102 103 104 105 106 107 108 109 110 111 112 113 114 115 116 117 118 119 120 121 122 123 124 125 126
// expect 1: i32 127 128 129 130 131 132 133 134 135 136 137 138 139 140 141 142 143 144 145 146 147 148 149 150 151
// expect 1: i32 152 153 154 155 156 157 158 159 160 161 162 163 164 165 166 167 168 169 170 171 172 173 174 175 176
// expect 1: i32 177 178 179 180 181 182 183 184 185 186 187 188 189 190 191 192

#include "hopper.cuh"

// Copies contiguous bytes.
__device__ __forceinline__ void load_tile(void* to, const void* from, unsigned bytes, Barrier* barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 ::"r"(shared_address(to)), "l"(__cvta_generic_to_global(from)), "r"(bytes),
                 "r"(shared_address(barrier)) : "memory");
}

// Copies contiguous bytes.
__device__ __forceinline__ void store_tile(void* to, const void* from, unsigned bytes) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
                 ::"l"(__cvta_generic_to_global(to)), "r"(shared_address(from)), "r"(bytes) : "memory");
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
            bulk_wait_group_read<0>();  // so that the next copy does not overwrite what this one still reads
        }
    }
}
