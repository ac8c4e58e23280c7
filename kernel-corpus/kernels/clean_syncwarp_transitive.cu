// Eight lanes meet the next eight, and those meet the eight after them: so the last know
// what the first have written.
//
// launch: grid=1 block=64
// args: i32[64]=iota i32[64]=zeros
// bug: none
// expect 1: i32 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 8 10 12 14 16 18 20 22 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
// expect 1: i32 0 72 74 76 78 80 82 84 86 0 0 0 0 0 0 0 0

extern "C" __global__ void relay(const int* in, int* out) {
    __shared__ int row[64];
    int t = threadIdx.x, lane = t % 32;
    row[t] = in[t];
    if (lane < 16) __syncwarp(0x0000ffffu);
    if (lane >= 8 && lane < 24) __syncwarp(0x00ffff00u);
    if (lane >= 16 && lane < 24) out[t] = row[t - 16] + row[t - 8];
}
