// Tiles of a ragged row: a smaller source, down to none, leaves zeros, and so does a
// source that is to be ignored.
//
// arch: compute_80
// launch: grid=1 block=32
// args: f32[50]=iota f32[128]=uninit i32=50
// bug: none
// expect 1: f32 0 0 0 0 0 0 0 0 0 0 0 0 0 0 49 48 47 46 45 44 43 42 41 40 39 38 37 36 35 34 33 32 31 30 29 28 27 26
// expect 1: f32 25 24 23 22 21 20 19 18 17 16 15 14 13 12 11 10 9 8 7 6 5 4 3 2 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 49 0
// expect 1: f32 47 0 45 0 43 0 41 0 39 0 37 0 35 0 33 0 31 0 29 0 27 0 25 0 23 0 21 0 19 0 17 0 15 0 13 0 11 0 9 0 7
// expect 1: f32 0 5 0 3 0 1 0

__device__ void copy16(float* to, const float* from, int bytes) {
    unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(from), "r"(bytes) : "memory");
}
__device__ void copy4_unless(float* to, const float* from, int ignore) {
    unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(to));
    asm volatile("{ .reg .pred p; setp.ne.s32 p, %2, 0; cp.async.ca.shared.global [%0], [%1], 4, p; }" ::"r"(at),
                 "l"(from), "r"(ignore)
                 : "memory");
}
__device__ void wait_all() { asm volatile("cp.async.wait_all;" ::: "memory"); }

extern "C" __global__ void padded(const float* in, float* out, int n) {
    __shared__ __align__(16) float tile[64], odd[64];
    int t = threadIdx.x;
    if (t < 16) copy16(&tile[4 * t], &in[4 * t], 4 * max(0, min(4, n - 4 * t)));
    for (int i = t; i < 64; i += 32) copy4_unless(&odd[i], &in[i], i % 2 == 0 || i >= n);
    wait_all();
    __syncthreads();
    for (int i = t; i < 64; i += 32) {
        out[i] = tile[63 - i];
        out[64 + i] = odd[63 - i];
    }
}
