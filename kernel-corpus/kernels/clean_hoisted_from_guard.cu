// Set and used under one condition: the compiler computes with the variables outside of it, before
// the loop, where some threads have not set them.
//
// launch: grid=1 block=32
// args: i32[32]=iota i32[96]=zeros i32=3
// bug: none
// expect 1: i32 279 480 725 1008 1323 1664 2025 2400 2783 3168 3549 3920 4275 4608 4913 5184 0 0 0 0 0 0 0 0 0 0 0 0
// expect 1: i32 0 0 0 0 286 487 732 1015 1330 1671 2032 2407 2790 3175 3556 3927 4282 4615 4920 5191 0 0 0 0 0 0 0 0
// expect 1: i32 0 0 0 0 0 0 0 0 293 494 739 1022 1337 1678 2039 2414 2797 3182 3563 3934 4289 4622 4927 5198 0 0 0 0
// expect 1: i32 0 0 0 0 0 0 0 0 0 0 0 0

extern "C" __global__ void guarded_rows(const int* in, int* out, int n) {
    int t = threadIdx.x, v, w;
    int x = in[t];
    if (x < 16) {
        v = x + 3;
        w = in[31 - t];
    }
#pragma unroll 1
    for (int i = 0; i < n; i++) {
        if (x < 16) {
            out[i * 32 + t] = v * v * w + 7 * i;
            __threadfence();
        }
        __syncwarp();
    }
}
