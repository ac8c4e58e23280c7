// Each warp stores half of the rows of a matrix, and both load all rows with no barrier between.
//
// arch: compute_80
// launch: grid=1 block=64
// args: u16[64]=iota u32[64]=zeros
// bug: shared race

// One matrix of 8 rows of 8 elements; lane i names row i % 8.
__device__ unsigned ldmatrix_x1(const unsigned short* row) {
    unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(row)), d;
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(d) : "r"(at) : "memory");  // BUG
    return d;
}

extern "C" __global__ void fragments(const unsigned short* in, unsigned* out) {
    __shared__ alignas(16) unsigned short tile[64];
    int t = threadIdx.x;
    tile[t] = 0;  // a defined start
    __syncthreads();
    tile[t] = in[t] + 1;
    out[t] = ldmatrix_x1(&tile[8 * (t % 8)]);
}
