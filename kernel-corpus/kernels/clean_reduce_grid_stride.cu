// A grid-stride loop, and one atomic addition per warp.
//
// launch: grid=3 block=64
// args: i32[1000]=iota i32[1]=zeros i32=1000
// bug: none
// expect 1: i32 499500

extern "C" __global__ void reduce(const int* in, int* out, int n) {
    int sum = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += in[i];
    for (int d = 16; d > 0; d /= 2) sum += __shfl_down_sync(0xffffffffu, sum, d);
    if (threadIdx.x % 32 == 0) atomicAdd(out, sum);
}
