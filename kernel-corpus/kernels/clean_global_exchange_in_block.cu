// Threads of a block exchange through global memory, across a barrier.
//
// launch: grid=2 block=64
// args: i32[128]=iota i32[128]=uninit i32[128]=uninit
// bug: none
// expect 2: i32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63 64 1 2
// expect 2: i32 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 97 98 99 100 101
// expect 2: i32 102 103 104 105 106 107 108 109 110 111 112 113 114 115 116 117 118 119 120 121 122 123 124 125 126
// expect 2: i32 127 128 65 66 67 68 69 70 71 72 73 74 75 76 77 78 79 80 81 82 83 84 85 86 87 88 89 90 91 92 93 94 95
// expect 2: i32 96

extern "C" __global__ void rotate(const int* in, int* between, int* out) {
    int t = threadIdx.x, base = blockIdx.x * 64;
    between[base + t] = in[base + t] + 1;
    __syncthreads();
    out[base + t] = between[base + (t + 32) % 64];
}
