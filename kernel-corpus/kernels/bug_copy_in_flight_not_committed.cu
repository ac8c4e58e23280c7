// A wait for groups does not wait for a copy that was never committed to one.
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
template <int N> __device__ void wait_group() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }

extern "C" __global__ void reverse(const float* in, float* out) {
    __shared__ float tile[64];
    int t = threadIdx.x;
    copy4(&tile[t], &in[t]);
    wait_group<0>();
    __syncthreads();
    out[t] = tile[63 - t];  // BUG
}
