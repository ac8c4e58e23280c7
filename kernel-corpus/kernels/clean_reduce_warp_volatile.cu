// The same with volatile memory, reading and writing kept apart by __syncwarp.
//
// launch: grid=1 block=32
// args: i32[64]=iota i32[1]=uninit
// bug: none
// expect 1: i32 2016

extern "C" __global__ void reduce(const int* in, int* out) {
    __shared__ volatile int sums[64];
    int lane = threadIdx.x;
    sums[lane] = in[lane];
    sums[lane + 32] = in[lane + 32];
    __syncwarp();
    for (int half = 32; half > 0; half /= 2) {
        int other = sums[lane + (lane < half ? half : 0)];
        __syncwarp();
        if (lane < half) sums[lane] = sums[lane] + other;
        __syncwarp();
    }
    if (lane == 0) *out = sums[0];
}
