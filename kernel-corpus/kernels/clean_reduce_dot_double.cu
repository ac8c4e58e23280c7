// A dot product in double precision; halves of the warp work on different rows with partial masks.
//
// launch: grid=1 block=32
// args: f64[64]=iota f64[64]=ones f64[4]=uninit
// bug: none
// expect 2: f64 120 376 632 888

extern "C" __global__ void dots(const double* x, const double* y, double* out) {
    int lane = threadIdx.x, half = lane / 16;
    unsigned mask = 0xffffu << (16 * half);
    for (int r = half; r < 4; r += 2) {
        int i = 16 * r + lane % 16;
        double sum = x[i] * y[i];
        for (int d = 8; d > 0; d /= 2) sum += __shfl_xor_sync(mask, sum, d, 16);
        if (lane % 16 == 0) out[r] = sum;
    }
}
