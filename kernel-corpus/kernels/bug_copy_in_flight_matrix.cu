// The rows of a matrix are loaded while the copies to them are in flight: the wait
// leaves the newest group.
//
// arch: compute_80
// launch: grid=1 block=32
// args: u16[64]=iota u32[32]=zeros
// bug: copy in flight

// Copies 4 bytes.
__device__ void copy4(unsigned short* to, const unsigned short* from) {
    unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(at), "l"(from) : "memory");
}
__device__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> __device__ void wait_group() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }
// One matrix of 8 rows of 8 elements; lane i names row i % 8.
__device__ unsigned ldmatrix_x1(const unsigned short* row) {
    unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(row)), d;
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(d) : "r"(at) : "memory");  // BUG
    return d;
}

extern "C" __global__ void fragments(const unsigned short* in, unsigned* out) {
    __shared__ alignas(16) unsigned short tile[64];
    int t = threadIdx.x;
    copy4(&tile[2 * t], &in[2 * t]);
    commit();
    wait_group<1>();
    __syncthreads();
    out[t] = ldmatrix_x1(&tile[8 * (t % 8)]);
}
