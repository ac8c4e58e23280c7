// One warp fills a tile and the other uses it, with a barrier in each branch: allowed for PTX
// barriers, not for __syncthreads().
//
// launch: grid=1 block=64
// args: i32[64]=iota i32[64]=uninit
// bug: none
// expect 1: i32 31 30 29 28 27 26 25 24 23 22 21 20 19 18 17 16 15 14 13 12 11 10 9 8 7 6 5 4 3 2 1 0 63 62 61 60 59
// expect 1: i32 58 57 56 55 54 53 52 51 50 49 48 47 46 45 44 43 42 41 40 39 38 37 36 35 34 33 32

extern "C" __global__ void pass_on(const int* in, int* out) {
    __shared__ int tile[64];
    int t = threadIdx.x;
    if (t < 32) {
        tile[t] = in[t];
        tile[t + 32] = in[t + 32];
        asm volatile("bar.sync 0;" ::: "memory");
    } else {
        asm volatile("bar.sync 0;" ::: "memory");
        out[t - 32] = tile[63 - t];
        out[t] = tile[95 - t];
    }
    __syncthreads();
}
