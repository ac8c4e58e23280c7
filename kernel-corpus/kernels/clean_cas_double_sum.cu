// A sum of doubles by compare-and-swap, as in the CUDA programming guide: the loop
// starts with a plain read.
//
// launch: grid=4 block=32
// args: f64[128]=iota f64[2]=zeros
// bug: none
// expect 1: f64 4096 4160

__device__ __noinline__ double add(double* address, double value) {
    unsigned long long* word = reinterpret_cast<unsigned long long*>(address);
    unsigned long long old = *word, assumed;
    do {
        assumed = old;
        old = atomicCAS(word, assumed, __double_as_longlong(value + __longlong_as_double(assumed)));
    } while (assumed != old);
    return __longlong_as_double(old);
}

extern "C" __global__ void sum(const double* in, double* sums) {
    int i = blockIdx.x * 32 + threadIdx.x;
    add(&sums[i % 2], in[i]);
    unsigned long long* word = reinterpret_cast<unsigned long long*>(&sums[(i + 1) % 2]);
    unsigned long long old = *word, assumed;
    do {
        assumed = old;
        old = atomicCAS(word, assumed, __double_as_longlong(1.0 + __longlong_as_double(assumed)));
    } while (assumed != old);
}
