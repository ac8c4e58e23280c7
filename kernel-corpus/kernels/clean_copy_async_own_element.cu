// A thread reads its own copies behind its wait with no barrier; the groups behind it
// stay in flight to the end.
//
// arch: compute_80
// launch: grid=2 block=64
// args: f32[128]=iota f32[128]=uninit
// bug: none
// expect 1: f32 0 2 4 6 8 10 12 14 16 18 20 22 24 26 28 30 32 34 36 38 40 42 44 46 48 50 52 54 56 58 60 62 64 66 68
// expect 1: f32 70 72 74 76 78 80 82 84 86 88 90 92 94 96 98 100 102 104 106 108 110 112 114 116 118 120 122 124 126
// expect 1: f32 128 130 132 134 136 138 140 142 144 146 148 150 152 154 156 158 160 162 164 166 168 170 172 174 176
// expect 1: f32 178 180 182 184 186 188 190 192 194 196 198 200 202 204 206 208 210 212 214 216 218 220 222 224 226
// expect 1: f32 228 230 232 234 236 238 240 242 244 246 248 250 252 254

// Copies 4 bytes.
__device__ void copy4(float* to, const float* from) {
    unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(at), "l"(from) : "memory");
}
__device__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> __device__ void wait_group() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }

extern "C" __global__ void twice(float* in, float* out) {
    __shared__ float tile[2][64];
    int t = threadIdx.x, i = blockIdx.x * 64 + t;
    copy4(&tile[0][t], &in[i]);
    commit();
    copy4(&tile[1][t], &in[i]);
    commit();
    wait_group<1>();
    out[i] = 2.0f * tile[0][t];
    tile[0][t] = 0.0f;
}
