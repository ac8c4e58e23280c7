// A histogram by atomics in global memory.
//
// launch: grid=4 block=32
// args: i32[128]=iota i32[7]=zeros
// bug: none
// expect 1: i32 19 19 18 18 18 18 18

extern "C" __global__ void histogram(const int* in, int* counts) {
    atomicAdd(&counts[in[blockIdx.x * 32 + threadIdx.x] % 7], 1);
}
