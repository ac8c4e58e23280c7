// Inline PTX with a matrix product, one register of whose left fragment has no value.
//
// arch: compute_80
// launch: grid=1 block=32
// args: u32[96]=iota f32[32]=zeros
// bug: uninitialised register

extern "C" __global__ void product(const unsigned* in, float* out) {
    int t = threadIdx.x;
    float d;
    asm volatile("{ .reg .b32 a; .reg .f32 x, y, z, zero; mov.f32 zero, 0f00000000;"
                 "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, x, y, z}, {%1, %2, %3, a}, {%1, %2}, "
                 "{zero, zero, zero, zero}; }"
                 : "=f"(d) : "r"(in[t]), "r"(in[t + 32]), "r"(in[t + 64]));  // BUG
    out[t] = d;
}
