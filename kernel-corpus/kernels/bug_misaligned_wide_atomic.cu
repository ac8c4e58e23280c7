// A 64-bit counter is laid behind a 32-bit one.
//
// launch: grid=1 block=32
// args: u32[4]=zeros
// bug: misaligned

extern "C" __global__ void count(unsigned* counters) {
    if (threadIdx.x < 3) atomicAdd(&counters[0], 1u);
    atomicAdd(reinterpret_cast<unsigned long long*>(counters + 1), 1ull);  // BUG
}
