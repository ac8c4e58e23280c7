// A warp arrives with the count of the whole block at a barrier for one warp.
//
// arch: compute_80
// launch: grid=1 block=64
// args: i32[64]=uninit
// bug: bad mbarrier

extern "C" __global__ void arrivals(int* out) {
    __shared__ unsigned long long barrier;
    unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(&barrier));
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], 32;" ::"r"(at) : "memory");
    __syncthreads();
    if (threadIdx.x % 32 == 0) {
        asm volatile("{ .reg .b64 s; mbarrier.arrive.noComplete.shared.b64 s, [%0], 64; }" ::"r"(at) : "memory");  // BUG
    }
    out[threadIdx.x] = 1;
}
