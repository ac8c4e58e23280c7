// Every function of prelude.cuh, applied to one warp of numbers, for the tests.
//
// grid: 1 block; block: 32 threads, one element each; shared memory: none
// reads x; writes y
//
// launch: grid=1 block=32
// args: f32[32]=iota f32[320]=uninit

#include "prelude.cuh"

extern "C" __global__ void prelude_check(const float* x,  // [32] f32
                                         float* y) {      // [10, 32] f32: a row for each function
    int lane = threadIdx.x;
    float v = x[lane];
    y[0 * 32 + lane] = ex2_approx_ftz_f32(v);
    y[1 * 32 + lane] = lg2_approx_ftz_f32(v);
    y[2 * 32 + lane] = rcp_approx_ftz_f32(v);
    y[3 * 32 + lane] = tanh_approx_f32(v);
    y[4 * 32 + lane] = cvt_f32_f16(cvt_rn_f16_f32(v));
    y[5 * 32 + lane] = f32_from_bf16(bf16_from_f32(v));
    y[6 * 32 + lane] = warp_max(v);
    y[7 * 32 + lane] = warp_sum(v);
    y[8 * 32 + lane] = INFINITY;
    y[9 * 32 + lane] = -INFINITY;
}
