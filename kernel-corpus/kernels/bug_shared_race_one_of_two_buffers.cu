// Relaxation between two buffers; only the even steps end in a barrier.
//
// launch: grid=1 block=64
// args: f32[64]=iota f32[64]=zeros
// bug: shared race

extern "C" __global__ void relax(const float* in, float* out) {
    __shared__ float buffer[2][64];
    int t = threadIdx.x;
    buffer[0][t] = in[t];
    __syncthreads();
    for (int step = 0; step < 6; step++) {
        const float* from = buffer[step % 2];
        float* to = buffer[(step + 1) % 2];
        to[t] = 0.5f * (from[t] + from[(t + 1) % 64]);  // BUG
        if (step % 2 == 0) __syncthreads();
    }
    __syncthreads();
    out[t] = buffer[0][t];
}
