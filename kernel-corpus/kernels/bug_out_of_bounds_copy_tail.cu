// The last thread copies 16 bytes of a row that ends after eight of them, and
// states no smaller source.
//
// arch: compute_80
// launch: grid=1 block=16
// args: f32[62]=iota f32[64]=zeros
// bug: out of bounds

__device__ void copy16(float* to, const float* from) {
    unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(from) : "memory");  // BUG
}
__device__ void wait_all() { asm volatile("cp.async.wait_all;" ::: "memory"); }

extern "C" __global__ void fourths(const float* in, float* out) {
    __shared__ __align__(16) float tile[64];
    int t = threadIdx.x;
    copy16(&tile[4 * t], &in[4 * t]);
    wait_all();
    __syncthreads();
    out[t] = tile[63 - 4 * t];
}
