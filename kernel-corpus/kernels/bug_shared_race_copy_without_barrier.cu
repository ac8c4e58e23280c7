// Each thread waits for its own copies, and then reads what another thread has
// copied: no barrier is between.
//
// arch: compute_80
// launch: grid=1 block=64
// args: f32[64]=iota f32[64]=zeros
// bug: shared race

// Copies 4 bytes.
__device__ void copy4(float* to, const float* from) {
    unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(at), "l"(from) : "memory");
}
__device__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> __device__ void wait_group() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }

extern "C" __global__ void reverse(const float* in, float* out) {
    __shared__ float tile[64];
    int t = threadIdx.x;
    tile[t] = 0.0f;  // a defined start
    __syncthreads();
    if (t >= 32) copy4(&tile[t], &in[t]);
    commit();
    wait_group<0>();
    if (t >= 32) out[t] = tile[95 - t];  // BUG
}
