// Lanes with the same bin find each other, and one of them adds for all.
//
// launch: grid=2 block=64
// args: i32[128]=iota i32[5]=zeros
// bug: none
// expect 1: i32 27 27 26 24 24

extern "C" __global__ void histogram(const int* in, int* counts) {
    int lane = threadIdx.x % 32, bin = in[blockIdx.x * 64 + threadIdx.x] / 3 % 5;
    unsigned same = __match_any_sync(0xffffffffu, bin);
    if (__ffs(same) - 1 == lane) atomicAdd(&counts[bin], __popc(same));
}
