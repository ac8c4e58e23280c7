// Only odd lanes wait: a wait ends the copies of the lanes that run it, and
// not those of their warp.
//
// arch: compute_80
// launch: grid=1 block=32
// args: f32[32]=iota f32[32]=zeros
// bug: copy in flight

// Copies 4 bytes.
__device__ void copy4(float* to, const float* from) {
    unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(at), "l"(from) : "memory");
}
__device__ void wait_all() { asm volatile("cp.async.wait_all;" ::: "memory"); }

extern "C" __global__ void swap_pairs(const float* in, float* out) {
    __shared__ float tile[32];
    int t = threadIdx.x;
    copy4(&tile[t], &in[t]);
    if (t % 2) wait_all();
    __syncthreads();
    out[t] = tile[t ^ 1];  // BUG
}
