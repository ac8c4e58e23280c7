// A product of 16 by 16 ones and columns 0, 1, 2, …: lane 4g + t has the columns 2t and
// 2t + 1 of rows g and g + 8.
//
// arch: compute_80
// launch: grid=1 block=32
// args: f32[128]=uninit
// bug: none
// expect 0: f32 0 16 32 48 64 80 96 112 0 16 32 48 64 80 96 112 0 16 32 48 64 80 96 112 0 16 32 48 64 80 96 112 0 16
// expect 0: f32 32 48 64 80 96 112 0 16 32 48 64 80 96 112 0 16 32 48 64 80 96 112 0 16 32 48 64 80 96 112 0 16 32
// expect 0: f32 48 64 80 96 112 0 16 32 48 64 80 96 112 0 16 32 48 64 80 96 112 0 16 32 48 64 80 96 112 0 16 32 48
// expect 0: f32 64 80 96 112 0 16 32 48 64 80 96 112 0 16 32 48 64 80 96 112 0 16 32 48 64 80 96 112

// D = A B + 0 with A full of ones. A pair of halves in each register.
__device__ void mma(float (&d)[4], unsigned b) {
    unsigned one = 0x3c003c00;
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %4, %4, %4}, {%5, %5}, {%6, %6, %6, %6};"
        : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3]) : "r"(one), "r"(b), "f"(0.0f));
}

__device__ unsigned pair_of(float x) {
    unsigned pair;
    asm("cvt.rn.f16x2.f32 %0, %1, %1;" : "=r"(pair) : "f"(x));
    return pair;
}

extern "C" __global__ void columns(float* out) {
    int g = threadIdx.x / 4, t = threadIdx.x % 4;
    float d[4];
    mma(d, pair_of(static_cast<float>(g)));
    out[8 * g + 2 * t] = d[0];
    out[8 * g + 2 * t + 1] = d[1];
    out[8 * (g + 8) + 2 * t] = d[2];
    out[8 * (g + 8) + 2 * t + 1] = d[3];
}
