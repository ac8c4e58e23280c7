// Static and dynamic shared memory are within what a block may have each, but not together.
//
// launch: grid=1 block=32 shared=200000
// args: f32[32]=zeros
// bug: launch limit

extern "C" __global__ void fill(float* out) {
    extern __shared__ float pool[];
    __shared__ float table[10000];
    for (int i = threadIdx.x; i < 10000; i += 32) table[i] = 1.0f;
    pool[threadIdx.x] = 2.0f;
    __syncwarp();
    out[threadIdx.x] = pool[31 - threadIdx.x] + table[9999 - threadIdx.x];
}
