// One warp copies a row for the other, waits, and arrives at the barrier; then it copies the
// next to the other buffer.
//
// arch: compute_80
// launch: grid=1 block=64
// args: f32[128]=iota f32[32]=uninit
// bug: none
// expect 1: f32 316 312 308 304 300 296 292 288 284 280 276 272 268 264 260 256 252 248 244 240 236 232 228 224 220
// expect 1: f32 216 212 208 204 200 196 192

// Copies 4 bytes.
__device__ void copy4(float* to, const float* from) {
    unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(at), "l"(from) : "memory");
}
__device__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> __device__ void wait_group() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }

extern "C" __global__ void column_sums(const float* in, float* out) {
    __shared__ float tile[2][32];
    int lane = threadIdx.x % 32;
    bool copies = threadIdx.x < 32;
    float sum = 0.0f;
    for (int row = 0; row < 4; row++) {
        if (copies) {
            copy4(&tile[row % 2][lane], &in[row * 32 + lane]);
            commit();
            wait_group<0>();
        }
        __syncthreads();  // a row is there, and the one before it has been read
        if (!copies) sum += tile[row % 2][31 - lane];
    }
    if (!copies) out[lane] = sum;
}
