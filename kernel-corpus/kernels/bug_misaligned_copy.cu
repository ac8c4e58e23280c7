// Sixteen bytes are copied from every element of a row, and not from every fourth.
//
// arch: compute_80
// launch: grid=1 block=16
// args: f32[64]=iota f32[64]=zeros
// bug: misaligned

__device__ void copy16(float* to, const float* from) {
    unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(from) : "memory");  // BUG
}
__device__ void wait_all() { asm volatile("cp.async.wait_all;" ::: "memory"); }

extern "C" __global__ void windows(const float* in, float* out) {
    __shared__ __align__(16) float tile[64];
    int t = threadIdx.x;
    copy16(&tile[4 * t], &in[t]);
    wait_all();
    out[4 * t] = tile[4 * t + 3];
}
