// A switch without a case for a value that does occur ends in inline PTX's trap.
//
// launch: grid=1 block=32
// args: i32[32]=iota i32[32]=zeros
// bug: trap

extern "C" __global__ void classify(const int* in, int* out) {
    int x = in[threadIdx.x], kind = 0;
    switch (x / 10) {
        case 0: kind = 1; break;
        case 1: kind = x; break;
        case 2: kind = x * x; break;
        default: asm volatile("trap;");  // BUG
    }
    out[threadIdx.x] = kind;
}
