// The lanes that pass a test exchange with partners that may have failed it.
//
// launch: grid=1 block=32
// args: i32[32]=iota i32[32]=zeros
// bug: inactive lane

extern "C" __global__ void exchange(const int* in, int* out) {
    int lane = threadIdx.x, x = in[lane];
    unsigned mask = __ballot_sync(0xffffffffu, x % 3 != 0);
    if (x % 3 != 0) {
        x += __shfl_xor_sync(mask, x, 1);  // BUG
    }
    out[lane] = x;
}
