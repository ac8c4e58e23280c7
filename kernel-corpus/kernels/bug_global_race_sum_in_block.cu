// All threads of a block add to one element of device memory without an atomic.
//
// launch: grid=1 block=64
// args: f32[64]=iota f32[1]=zeros
// bug: global race

extern "C" __global__ void sum(const float* x, float* sum) {
    sum[0] += x[threadIdx.x];  // UPDATE // BUG
}
