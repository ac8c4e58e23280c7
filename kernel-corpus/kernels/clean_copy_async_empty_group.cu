// Groups belong to threads: odd lanes commit an empty group behind their copy, so a wait for all
// but one group covers it. The even lanes' copies are still in flight then, and nobody reads
// them before the next wait.
//
// arch: compute_80
// launch: grid=1 block=32
// args: f32[32]=iota f32[32]=zeros
// bug: none
// expect 1: f32 100 100 302 302 504 504 706 706 908 908 1110 1110 1312 1312 1514 1514 1716 1716 1918 1918 2120 2120
// expect 1: f32 2322 2322 2524 2524 2726 2726 2928 2928 3130 3130

// Copies 4 bytes.
__device__ void copy4(float* to, const float* from) {
    unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(at), "l"(from) : "memory");
}
__device__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> __device__ void wait_group() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }

extern "C" __global__ void odd_first(const float* in, float* out) {
    __shared__ float tile[32];
    int t = threadIdx.x;
    copy4(&tile[t], &in[t]);
    commit();
    if (t % 2) commit();
    wait_group<1>();
    __syncthreads();
    float odd = tile[t | 1];
    wait_group<0>();
    __syncthreads();
    out[t] = 100 * odd + tile[t & 30];
}
