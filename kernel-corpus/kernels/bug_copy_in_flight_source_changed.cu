// The source is cleared for the next launch while it is still being copied.
//
// arch: compute_80
// launch: grid=2 block=64
// args: f32[128]=iota f32[128]=zeros
// bug: copy in flight

// Copies 4 bytes.
__device__ void copy4(float* to, const float* from) {
    unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(at), "l"(from) : "memory");
}
__device__ void wait_all() {
    asm volatile("cp.async.wait_all;" ::: "memory");  // BUG
}

extern "C" __global__ void take(float* in, float* out) {
    __shared__ float tile[64];
    int t = threadIdx.x, first = blockIdx.x * 64;
    copy4(&tile[t], &in[first + t]);
    in[first + t] = -1.0f;
    wait_all();
    __syncthreads();
    out[first + t] = tile[63 - t];
}
