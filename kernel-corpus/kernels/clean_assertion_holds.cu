// Assertions that hold, and an error path that is not taken.
//
// launch: grid=1 block=32
// args: i32[32]=iota i32[32]=uninit
// bug: none
// expect 1: i32 31 30 29 28 27 26 25 24 23 22 21 20 19 18 17 16 15 14 13 12 11 10 9 8 7 6 5 4 3 2 1 0

extern "C" __global__ void checked(const int* in, int* out) {
    int x = in[threadIdx.x];
    assert(x >= 0 && x < 32);
    if (x > 1000) __trap();
    out[threadIdx.x] = 31 - x;
}
