// Two lanes copy one element to one place: their index is clamped, and a copy
// has no order with another.
//
// arch: compute_80
// launch: grid=1 block=32
// args: f32[31]=iota f32[32]=zeros
// bug: copy in flight

__device__ void copy4(float* to, const float* from) {
    unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(at), "l"(from) : "memory");  // BUG
}
__device__ void wait_all() { asm volatile("cp.async.wait_all;" ::: "memory"); }

extern "C" __global__ void clamped(const float* in, float* out) {
    __shared__ float tile[31];
    int t = threadIdx.x, i = min(t, 30);
    copy4(&tile[i], &in[i]);
    wait_all();
    __syncthreads();
    out[t] = tile[30 - i];
}
