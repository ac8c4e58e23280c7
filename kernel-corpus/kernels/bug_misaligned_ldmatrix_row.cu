// Rows of 16 halves, padded by 4 against bank conflicts: every other row begins at
// no multiple of 16 bytes.
//
// arch: compute_80
// launch: grid=1 block=32
// args: u32[32]=zeros
// bug: misaligned

extern "C" __global__ void fragments(unsigned* out) {
    __shared__ __align__(16) unsigned tile[8][10];
    int lane = threadIdx.x;
    for (int i = lane; i < 80; i += 32) tile[i / 10][i % 10] = i;
    __syncthreads();
    unsigned fragment, row = static_cast<unsigned>(__cvta_generic_to_shared(tile[lane % 8]));
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(fragment) : "r"(row) : "memory");  // BUG
    out[lane] = fragment;
}
