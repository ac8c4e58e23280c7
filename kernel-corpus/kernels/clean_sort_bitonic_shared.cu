// A block sorts 128 values in shared memory.
//
// launch: grid=1 block=64
// args: i32[128]=iota i32[128]=uninit
// bug: none
// expect 1: i32 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36
// expect 1: i32 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63 64 65 66 67 68 69
// expect 1: i32 70 71 72 73 74 75 76 77 78 79 80 81 82 83 84 85 86 87 88 89 90 91 92 93 94 95 96 97 98 99 100 101
// expect 1: i32 102 103 104 105 106 107 108 109 110 111 112 113 114 115 116 117 118 119 120 121 122 123 124 125 126
// expect 1: i32 127

extern "C" __global__ void sort(const int* in, int* out) {
    __shared__ int keys[128];
    int t = threadIdx.x;
    for (int i = t; i < 128; i += 64) keys[i] = in[i] * 37 % 128;
    for (int size = 2; size <= 128; size *= 2) {
        for (int d = size / 2; d > 0; d /= 2) {
            __syncthreads();
            int i = 2 * t - (t & (d - 1)), a = keys[i], b = keys[i + d];
            if ((a > b) == ((i & size) == 0)) {
                keys[i] = b;
                keys[i + d] = a;
            }
        }
    }
    __syncthreads();
    for (int i = t; i < 128; i += 64) out[i] = keys[i];
}
