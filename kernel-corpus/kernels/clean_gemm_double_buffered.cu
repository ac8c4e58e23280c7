// While one pair of tiles is multiplied, the next is loaded into the other: one barrier a step.
//
// launch: grid=2,1 block=8,8
// args: f32[256]=iota f32[512]=ones f32[128]=uninit
// bug: none
// expect 2: f32 496 992 1488 1984 2480 2976 3472 3968 4464 4960 5456 5952 6448 6944 7440 7936 1520 3040 4560 6080
// expect 2: f32 7600 9120 10640 12160 13680 15200 16720 18240 19760 21280 22800 24320 2544 5088 7632 10176 12720
// expect 2: f32 15264 17808 20352 22896 25440 27984 30528 33072 35616 38160 40704 3568 7136 10704 14272 17840 21408
// expect 2: f32 24976 28544 32112 35680 39248 42816 46384 49952 53520 57088 4592 9184 13776 18368 22960 27552 32144
// expect 2: f32 36736 41328 45920 50512 55104 59696 64288 68880 73472 5616 11232 16848 22464 28080 33696 39312 44928
// expect 2: f32 50544 56160 61776 67392 73008 78624 84240 89856 6640 13280 19920 26560 33200 39840 46480 53120 59760
// expect 2: f32 66400 73040 79680 86320 92960 99600 106240 7664 15328 22992 30656 38320 45984 53648 61312 68976
// expect 2: f32 76640 84304 91968 99632 107296 114960 122624

constexpr int K = 32, N = 16;
extern "C" __global__ void gemm(const float* a, const float* b, float* c) {
    __shared__ float a_smem[2][8][8], b_smem[2][8][8];
    int tx = threadIdx.x, ty = threadIdx.y, col = blockIdx.x * 8 + tx;
    auto load = [&](int k0, int stage) {
        a_smem[stage][ty][tx] = a[ty * K + k0 + tx];
        b_smem[stage][ty][tx] = b[(k0 + ty) * N + col] + col;
    };
    load(0, 0);
    __syncthreads();
    float sum = 0.0f;
    for (int k0 = 0, stage = 0; k0 < K; k0 += 8, stage ^= 1) {
        if (k0 + 8 < K) load(k0 + 8, stage ^ 1);
        for (int k = 0; k < 8; k++) sum += a_smem[stage][ty][k] * b_smem[stage][k][tx];
        __syncthreads();
    }
    c[ty * N + col] = sum;
}
