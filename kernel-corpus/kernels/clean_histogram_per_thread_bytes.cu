// Each thread counts in bytes of its own, side by side with its neighbours'; no atomics are needed.
//
// launch: grid=1 block=64
// args: u8[256]=iota i32[4]=uninit
// bug: none
// expect 1: i32 67 63 63 63

extern "C" __global__ void histogram(const unsigned char* in, int* out) {
    __shared__ unsigned char counts[4][64];
    int t = threadIdx.x;
    for (int bin = 0; bin < 4; bin++) counts[bin][t] = 0;
    for (int i = t; i < 256; i += 64) counts[in[i] / 7 % 4][t]++;
    __syncthreads();
    if (t < 4) {
        int sum = 0;
        for (int j = 0; j < 64; j++) sum += counts[t][j];
        out[t] = sum;
    }
}
