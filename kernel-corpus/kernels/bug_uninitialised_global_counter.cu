// Blocks count themselves in a counter without a start value.
//
// launch: grid=4 block=32
// args: u32[1]=uninit u32[4]=zeros
// bug: uninitialised global

extern "C" __global__ void tickets(unsigned* counter, unsigned* out) {
    if (threadIdx.x == 0) out[blockIdx.x] = atomicAdd(counter, 1u);  // BUG
}
