// Votes of warps, one of them of the lanes in a branch only.
//
// launch: grid=1 block=96
// args: i32[96]=iota i32[96]=uninit
// bug: none
// expect 1: i32 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3 3
// expect 1: i32 3 3 3 3 3 3 3 3 3 3 3 3 3 3 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 4 4 4 4 4 4 4 4 4 4 4 4

extern "C" __global__ void votes(const int* in, int* out) {
    int t = threadIdx.x, x = in[t];
    int result = __any_sync(0xffffffffu, x == 40) + 2 * __all_sync(0xffffffffu, x < 64);
    unsigned high = __ballot_sync(0xffffffffu, x % 32 >= 20);
    if (x % 32 >= 20) result += 4 * __all_sync(high, x > 60);
    out[t] = result;
}
