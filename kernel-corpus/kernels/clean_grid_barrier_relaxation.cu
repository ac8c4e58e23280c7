// Three rounds of a stencil over blocks, between two buffers, with a grid barrier after each.
//
// launch: grid=4 block=32
// args: i32[128]=iota i32[128]=uninit u32[1]=zeros
// bug: none
// expect 0: i32 -128 129 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34
// expect 0: i32 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63 64 65 66 67
// expect 0: i32 68 69 70 71 72 73 74 75 76 77 78 79 80 81 82 83 84 85 86 87 88 89 90 91 92 93 94 95 96 97 98 99 100
// expect 0: i32 101 102 103 104 105 106 107 108 109 110 111 112 113 114 115 116 117 118 119 120 121 122 123 124 125
// expect 0: i32 -2 255
// expect 1: i32 512 -255 130 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33
// expect 1: i32 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63 64 65 66
// expect 1: i32 67 68 69 70 71 72 73 74 75 76 77 78 79 80 81 82 83 84 85 86 87 88 89 90 91 92 93 94 95 96 97 98 99
// expect 1: i32 100 101 102 103 104 105 106 107 108 109 110 111 112 113 114 115 116 117 118 119 120 121 122 123 124
// expect 1: i32 -3 382 -385

extern "C" __global__ void relax(int* a, int* b, unsigned* arrived) {
    int i = blockIdx.x * 32 + threadIdx.x;
    for (int round = 1; round <= 3; round++) {
        const int* from = round % 2 ? a : b;
        int* to = round % 2 ? b : a;
        to[i] = from[(i + 127) % 128] + from[(i + 1) % 128] - from[i];
        __syncthreads();
        if (threadIdx.x == 0) {
            __threadfence();
            atomicAdd(arrived, 1u);
            while (atomicAdd(arrived, 0u) < round * gridDim.x) {}
            __threadfence();
        }
        __syncthreads();
    }
}
