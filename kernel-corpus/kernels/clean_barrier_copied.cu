// A barrier in a loop that the compiler unrolls, and in a function that is called in two places,
// one behind the other; a warp leaves before the last one.
//
// launch: grid=1 block=64
// args: i32[64]=iota i32[64]=uninit i32=7
// bug: none
// expect 1: i32 7809 7489 6273 4161 2049 833 513 577 705 833 961 1089 1217 1345 1473 1601 1729 1857 1985 2113 2241
// expect 1: i32 2369 2497 2625 2753 2881 3009 3137 3265 3393 3521 3649 3776 3904 4032 4160 4288 4416 4544 4672 4800
// expect 1: i32 4928 5056 5184 5312 5440 5568 5696 5824 5952 6080 6208 6336 6464 6592 6720 6848 6976 7104 7232 7360
// expect 1: i32 7488 7616 7744

__device__ int exchanged(int* row, int t, int x) {
    row[t] = x;
    __syncthreads();
    int y = row[63 - t];
    __syncthreads();
    return y;
}

extern "C" __global__ void rounds(const int* in, int* out, int n) {
    __shared__ int row[64];
    int t = threadIdx.x, x = in[t];
    if (n > 3) x = exchanged(row, t, x + 1);
#pragma unroll 4
    for (int i = 0; i < n; i++) {
        row[t] = x;
        __syncthreads();
        x += row[(t + 1) % 64];
        __syncthreads();
    }
    out[t] = exchanged(row, t, x);
    if (t >= 32) return;
    __syncthreads();
    out[t] += 1;
}
