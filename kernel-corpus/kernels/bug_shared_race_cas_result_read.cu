// Threads raise a maximum by compare-and-swap, and read it plainly while others still raise it.
//
// launch: grid=1 block=64
// args: i32[64]=iota i32[64]=zeros
// bug: shared race

extern "C" __global__ void maximum(const int* in, int* out) {
    __shared__ int best;
    if (threadIdx.x == 0) best = 0;
    __syncthreads();
    int x = in[threadIdx.x], old = best;
    while (old < x) {
        int assumed = old;
        old = atomicCAS(&best, assumed, x);  // BUG
        if (old == assumed) break;
    }
    out[threadIdx.x] = best;  // BUG
}
