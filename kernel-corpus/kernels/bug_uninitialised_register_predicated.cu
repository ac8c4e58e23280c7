// A register is set under a predicate, and used by all threads.
//
// launch: grid=1 block=32
// args: i32[32]=iota i32[32]=zeros
// bug: uninitialised register

extern "C" __global__ void clamp(const int* in, int* out) {
    int x = in[threadIdx.x], y;
    asm volatile("{ .reg .pred p; .reg .s32 t; setp.lt.s32 p, %1, 10; @p mov.s32 t, %1; add.s32 %0, t, 1; }" : "=r"(y) : "r"(x));  // BUG
    out[threadIdx.x] = y;
}
