// Two groups are in flight, and the wait leaves the newest one there: the second half
// is read while it arrives.
//
// arch: compute_80
// launch: grid=1 block=32
// args: f32[64]=iota f32[32]=zeros
// bug: copy in flight

// Copies 4 bytes.
__device__ void copy4(float* to, const float* from) {
    unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(at), "l"(from) : "memory");
}
__device__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> __device__ void wait_group() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }

extern "C" __global__ void pair_sums(const float* in, float* out) {
    __shared__ float tile[2][32];
    int t = threadIdx.x;
    copy4(&tile[0][t], &in[t]);
    commit();
    copy4(&tile[1][t], &in[32 + t]);
    commit();
    wait_group<1>();
    __syncthreads();
    float sum = tile[0][31 - t];
    out[t] = sum + tile[1][31 - t];  // BUG
}
