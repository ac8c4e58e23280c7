// The lower half of the warp names all lanes, the upper half names only itself.
//
// launch: grid=1 block=32
// args: i32[32]=iota i32[32]=zeros
// bug: different masks

extern "C" __global__ void sums(const int* in, int* out) {
    int lane = threadIdx.x, x = in[lane];
    unsigned mask = lane < 16 ? 0xffffffffu : 0xffff0000u;
    x += __shfl_xor_sync(mask, x, 1);  // BUG
    out[lane] = x;
}
