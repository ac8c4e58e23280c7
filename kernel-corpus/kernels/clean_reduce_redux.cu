// Integer reductions of a warp in one instruction.
//
// launch: grid=1 block=64
// args: i32[64]=iota i32[6]=uninit
// arch: compute_80
// bug: none
// expect 1: i32 -144 -20 31 880 12 63

extern "C" __global__ void reduce(const int* in, int* out) {
    int t = threadIdx.x, warp = t / 32, x = in[t] - 20;
    int sum = __reduce_add_sync(0xffffffffu, x);
    int least = __reduce_min_sync(0xffffffffu, x);
    unsigned bits = __reduce_or_sync(0xffffffffu, static_cast<unsigned>(in[t]));
    if (t % 32 == 0) {
        out[3 * warp] = sum;
        out[3 * warp + 1] = least;
        out[3 * warp + 2] = bits;
    }
}
