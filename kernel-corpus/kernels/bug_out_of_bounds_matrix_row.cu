// A load of a matrix of eight rows from a tile of seven: the last row lies behind the tile.
//
// arch: compute_80
// launch: grid=1 block=32
// args: u16[56]=iota u32[32]=zeros
// bug: out of bounds

// One matrix of 8 rows of 8 elements; lane i names row i % 8.
__device__ unsigned ldmatrix_x1(const unsigned short* row) {
    unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(row)), d;
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(d) : "r"(at) : "memory");  // BUG
    return d;
}

extern "C" __global__ void fragments(const unsigned short* in, unsigned* out) {
    __shared__ alignas(16) unsigned short tile[56];
    int t = threadIdx.x;
    for (int i = t; i < 56; i += 32) tile[i] = in[i];
    __syncwarp();
    out[t] = ldmatrix_x1(&tile[8 * (t % 8)]);
}
