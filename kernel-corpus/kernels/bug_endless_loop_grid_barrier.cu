// A barrier between blocks waits for one arrival more than there are blocks.
//
// launch: grid=4 block=32
// args: u32[1]=zeros i32[4]=zeros
// bug: endless loop

extern "C" __global__ void two_phases(unsigned* arrived, int* out) {
    if (threadIdx.x == 0) {
        __threadfence();
        atomicAdd(arrived, 1u);
        while (*static_cast<volatile unsigned*>(arrived) <= gridDim.x) {}  // BUG
        __threadfence();
        out[blockIdx.x] = 1;
    }
}
