// A warp asks 1000 times whether a phase is over; nobody ends it, so the warp goes on without it.
//
// arch: compute_80
// launch: grid=1 block=64
// args: i32[64]=uninit
// bug: none
// expect 0: i32 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
// expect 0: i32 0 0 0 0 0 0 0 0 0 0 0 0 0 0

extern "C" __global__ void patience(int* out) {
    __shared__ unsigned long long barrier;
    unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(&barrier));
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(at) : "memory");
    __syncthreads();
    unsigned over = 0;
    for (int i = 0; i < 1000 && !over; i++) {
        asm volatile(
            "{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
            : "=r"(over) : "r"(at) : "memory");
    }
    out[threadIdx.x] = static_cast<int>(over);
}
