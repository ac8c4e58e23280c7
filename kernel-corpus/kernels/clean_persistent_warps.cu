// Warps fetch rows by themselves; a shuffle hands out the index.
//
// launch: grid=2 block=64
// args: i32[224]=iota i32[7]=uninit i32[1]=zeros
// bug: none
// expect 1: i32 496 1520 2544 3568 4592 5616 6640

extern "C" __global__ void work(const int* in, int* out, int* next) {
    int lane = threadIdx.x % 32;
    while (true) {
        int row = 0;
        if (lane == 0) row = atomicAdd(next, 1);
        row = __shfl_sync(0xffffffffu, row, 0);
        if (row >= 7) return;
        int x = in[row * 32 + lane];
        for (int d = 16; d > 0; d /= 2) x += __shfl_xor_sync(0xffffffffu, x, d);
        if (lane == 0) out[row] = x;
    }
}
