// Each thread copies 16 bytes, waits for them, and reads behind the barrier
// what others have copied.
//
// arch: compute_80
// launch: grid=2 block=16
// args: f32[128]=iota f32[128]=uninit
// bug: none
// expect 1: f32 63 62 61 60 59 58 57 56 55 54 53 52 51 50 49 48 47 46 45 44 43 42 41 40 39 38 37 36 35 34 33 32 31
// expect 1: f32 30 29 28 27 26 25 24 23 22 21 20 19 18 17 16 15 14 13 12 11 10 9 8 7 6 5 4 3 2 1 0 127 126 125 124
// expect 1: f32 123 122 121 120 119 118 117 116 115 114 113 112 111 110 109 108 107 106 105 104 103 102 101 100 99
// expect 1: f32 98 97 96 95 94 93 92 91 90 89 88 87 86 85 84 83 82 81 80 79 78 77 76 75 74 73 72 71 70 69 68 67 66
// expect 1: f32 65 64

// Copies 16 bytes.
__device__ void copy16(float* to, const float* from) {
    unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(from) : "memory");
}
__device__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> __device__ void wait_group() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }

extern "C" __global__ void reverse(const float* in, float* out) {
    __shared__ __align__(16) float tile[64];
    int t = threadIdx.x, first = blockIdx.x * 64;
    copy16(&tile[4 * t], &in[first + 4 * t]);
    commit();
    wait_group<0>();
    __syncthreads();
    for (int i = 0; i < 4; i++) out[first + 16 * i + t] = tile[63 - 16 * i - t];
}
