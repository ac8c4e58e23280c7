// Two arrays carved out of dynamic shared memory overlap, because the first is longer
// than its author thought.
//
// launch: grid=1 block=64 shared=512
// args: f32[64]=iota f32[64]=zeros
// bug: shared race

extern "C" __global__ void reverse_and_mark(const float* in, float* out) {
    extern __shared__ float pool[];
    float* tile = pool;        // 64 elements
    float* first = pool + 32;  // one per warp
    int t = threadIdx.x;
    tile[t] = in[t];
    __syncthreads();
    float mine = tile[63 - t];
    if (t % 32 == 0) first[t / 32] = mine + 1000.0f;  // BUG
    __syncthreads();
    out[t] = mine - first[t / 32];
}
