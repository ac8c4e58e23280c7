// Lane 4g + t stores its sums in columns t and t + 1, not 2t and 2t + 1: two lanes store
// different sums in one place.
//
// arch: compute_80
// launch: grid=1 block=32
// args: f32[128]=zeros
// bug: global race

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
    out[8 * g + t] = d[0];      // BUG
    out[8 * g + t + 1] = d[1];  // BUG
    out[8 * (g + 8) + t] = d[2];
    out[8 * (g + 8) + t + 1] = d[3];
}
