// The last block adds the partial sums, but nothing makes them visible before the counter.
//
// launch: grid=4 block=64
// args: f32[256]=iota f32[4]=zeros u32[1]=zeros f32[1]=zeros
// bug: global race

extern "C" __global__ void sum(const float* in, float* partial, unsigned* done, float* out) {
    if (threadIdx.x != 0) return;
    float mine = 0.0f;
    for (int i = 0; i < 64; i++) mine += in[blockIdx.x * 64 + i];
    partial[blockIdx.x] = mine;  // BUG
    if (atomicAdd(done, 1u) == gridDim.x - 1) {
        __threadfence();
        float total = 0.0f;
        for (int b = 0; b < gridDim.x; b++) total += partial[b];
        *out = total;
    }
}
