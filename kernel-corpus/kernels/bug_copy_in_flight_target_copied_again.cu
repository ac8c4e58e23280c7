// The next tile is copied to the buffer that the last copy still writes.
//
// arch: compute_80
// launch: grid=1 block=32
// args: f32[64]=iota f32[32]=zeros
// bug: copy in flight

__device__ void copy4(float* to, const float* from) {
    unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(at), "l"(from) : "memory");  // BUG
}
__device__ void wait_all() { asm volatile("cp.async.wait_all;" ::: "memory"); }

extern "C" __global__ void last_tile(const float* in, float* out) {
    __shared__ float tile[32];
    int t = threadIdx.x;
    for (int first = 0; first < 64; first += 32) copy4(&tile[t], &in[first + t]);
    wait_all();
    __syncthreads();
    out[t] = tile[31 - t];
}
