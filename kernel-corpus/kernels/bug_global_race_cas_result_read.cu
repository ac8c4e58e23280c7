// Blocks add by compare-and-swap, and read the sum plainly while others still add.
//
// launch: grid=4 block=32
// args: f64[128]=iota f64[1]=zeros f64[4]=zeros
// bug: global race

extern "C" __global__ void sum(const double* in, double* total, double* seen) {
    double x = in[blockIdx.x * 32 + threadIdx.x];
    unsigned long long* word = reinterpret_cast<unsigned long long*>(total);
    unsigned long long old = *word, assumed;
    do {
        assumed = old;
        old = atomicCAS(word, assumed, __double_as_longlong(x + __longlong_as_double(assumed)));  // BUG
    } while (assumed != old);
    __syncwarp();
    if (threadIdx.x == 0) seen[blockIdx.x] = *total;  // BUG
}
