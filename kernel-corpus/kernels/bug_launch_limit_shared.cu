// More shared memory than a block may have, even if it is asked for.
//
// launch: grid=1 block=32 shared=240000
// args: f32[32]=zeros
// bug: launch limit

extern "C" __global__ void fill(float* out) {
    extern __shared__ float pool[];
    pool[threadIdx.x] = 1.0f;
    __syncwarp();
    out[threadIdx.x] = pool[31 - threadIdx.x];
}
