// Odd-even transposition sort, a pair per thread, until a vote says that nothing moved.
//
// launch: grid=1 block=32
// args: i32[64]=iota i32[64]=uninit
// bug: none
// expect 1: i32 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36
// expect 1: i32 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63

extern "C" __global__ void sort(const int* in, int* out) {
    __shared__ int keys[64];
    int t = threadIdx.x;
    for (int i = t; i < 64; i += 32) keys[i] = 63 - in[i];
    int moved;
    do {
        moved = 0;
        for (int odd = 0; odd < 2; odd++) {
            __syncthreads();
            int i = 2 * t + odd;
            if (i + 1 < 64 && keys[i] > keys[i + 1]) {
                int key = keys[i];
                keys[i] = keys[i + 1];
                keys[i + 1] = key;
                moved = 1;
            }
        }
    } while (__syncthreads_or(moved));
    for (int i = t; i < 64; i += 32) out[i] = keys[i];
}
