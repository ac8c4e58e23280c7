// Two values are packed into 64 bits, of which one was never set, and that one is taken out.
//
// launch: grid=1 block=32
// args: i32[32]=iota i32[32]=zeros
// bug: uninitialised register

extern "C" __global__ void unpack(const int* in, int* out) {
    int x = in[threadIdx.x], y;
    asm volatile("{ .reg .b64 pair; .reg .b32 low, high, unset; mov.b64 pair, {%1, unset}; mov.b64 {low, high}, pair; mov.b32 %0, high; }" : "=r"(y) : "r"(x));
    out[threadIdx.x] = y;  // BUG
}
