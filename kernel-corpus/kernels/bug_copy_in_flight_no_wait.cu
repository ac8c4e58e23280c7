// A barrier does not wait for asynchronous copies: the tile is read while it arrives.
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
__device__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

extern "C" __global__ void reverse(const float* in, float* out) {
    __shared__ float tile[64];
    int t = threadIdx.x, first = blockIdx.x * 64;
    copy4(&tile[t], &in[first + t]);
    commit();
    __syncthreads();
    out[first + t] = tile[63 - t];  // BUG
}
