// The next tile is copied to the only buffer while other threads still read the last one.
//
// arch: compute_80
// launch: grid=1 block=64
// args: f32[256]=iota f32[64]=zeros
// bug: shared race

// Copies 4 bytes.
__device__ void copy4(float* to, const float* from) {
    unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(at), "l"(from) : "memory");
}
__device__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> __device__ void wait_group() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }

extern "C" __global__ void column_sums(const float* in, float* out) {
    __shared__ float tile[64];
    int t = threadIdx.x;
    float sum = 0.0f;
    for (int row = 0; row < 4; row++) {
        copy4(&tile[t], &in[row * 64 + t]);
        commit();
        wait_group<0>();
        __syncthreads();
        sum += tile[63 - t];  // BUG
    }
    out[t] = sum;
}
