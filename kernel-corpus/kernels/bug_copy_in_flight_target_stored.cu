// The edge of a tile is cleared while a copy to it is in flight: which of
// the two comes last is open.
//
// arch: compute_80
// launch: grid=1 block=64
// args: f32[64]=iota f32[64]=zeros
// bug: copy in flight

// Copies 4 bytes.
__device__ void copy4(float* to, const float* from) {
    unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(at), "l"(from) : "memory");
}
__device__ void wait_all() { asm volatile("cp.async.wait_all;" ::: "memory"); }

extern "C" __global__ void inner(const float* in, float* out) {
    __shared__ float tile[64];
    int t = threadIdx.x;
    copy4(&tile[t], &in[t]);
    if (t == 0 || t == 63) tile[t] = 0.0f;  // BUG
    wait_all();
    __syncthreads();
    out[t] = tile[63 - t];
}
