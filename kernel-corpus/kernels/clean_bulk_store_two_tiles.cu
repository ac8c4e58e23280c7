// Two tiles take turns: while one is filled, the other is being stored.
//
// arch: compute_90a
// launch: grid=1 block=64
// args: i32[64]=iota i32[256]=zeros
// bug: none
// expect 1: i32 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36
// expect 1: i32 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63 0 2 4 6 8 10 12 14
// expect 1: i32 16 18 20 22 24 26 28 30 32 34 36 38 40 42 44 46 48 50 52 54 56 58 60 62 64 66 68 70 72 74 76 78 80
// expect 1: i32 82 84 86 88 90 92 94 96 98 100 102 104 106 108 110 112 114 116 118 120 122 124 126 0 3 6 9 12 15 18
// expect 1: i32 21 24 27 30 33 36 39 42 45 48 51 54 57 60 63 66 69 72 75 78 81 84 87 90 93 96 99 102 105 108 111 114
// expect 1: i32 117 120 123 126 129 132 135 138 141 144 147 150 153 156 159 162 165 168 171 174 177 180 183 186 189
// expect 1: i32 0 4 8 12 16 20 24 28 32 36 40 44 48 52 56 60 64 68 72 76 80 84 88 92 96 100 104 108 112 116 120 124
// expect 1: i32 128 132 136 140 144 148 152 156 160 164 168 172 176 180 184 188 192 196 200 204 208 212 216 220 224
// expect 1: i32 228 232 236 240 244 248 252

#include "hopper.cuh"

extern "C" __global__ void multiples(const int* in, int* out) {
    __shared__ alignas(16) int tiles[2][64];
    int t = threadIdx.x;
    for (int round = 0; round < 4; round++) {
        int* tile = tiles[round % 2];
        if (t == 0) bulk_wait_group_read<1>();  // the store before the last has read its tile
        __syncthreads();
        tile[t] = (round + 1) * in[t];
        fence_proxy_async();
        __syncthreads();
        if (t == 0) {
            bulk_store(out + 64 * round, tile, 256);
            bulk_commit_group();
        }
    }
    if (t == 0) bulk_wait_group_read<0>();
}
