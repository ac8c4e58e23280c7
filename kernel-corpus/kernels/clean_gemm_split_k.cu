// Blocks share a product along K and add with atomics.
//
// launch: grid=1,4 block=8,4
// args: f32[128]=iota f32[256]=ones f32[32]=zeros
// bug: none
// expect 2: f32 496 992 1488 1984 2480 2976 3472 3968 1520 3040 4560 6080 7600 9120 10640 12160 2544 5088 7632 10176
// expect 2: f32 12720 15264 17808 20352 3568 7136 10704 14272 17840 21408 24976 28544

extern "C" __global__ void gemm(const float* a, const float* b, float* c) {
    int col = threadIdx.x, row = threadIdx.y;
    float sum = 0.0f;
    for (int k = blockIdx.y * 8; k < blockIdx.y * 8 + 8; k++) sum += a[row * 32 + k] * (b[k * 8 + col] + col);
    atomicAdd(&c[row * 8 + col], sum);
}
