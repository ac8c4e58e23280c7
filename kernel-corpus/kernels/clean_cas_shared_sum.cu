// Sums of doubles and of 16-bit numbers in shared memory, by compare-and-swap loops that
// start with a plain read.
//
// launch: grid=2 block=64
// args: f64[64]=iota f64[2]=zeros u16[2]=zeros
// bug: none
// expect 1: f64 2016 2016
// expect 2: u16 32 32

extern "C" __global__ void sum(const double* in, double* sums, unsigned short* counts) {
    __shared__ double total;
    __shared__ unsigned short odd;
    if (threadIdx.x == 0) {
        total = 0.0;
        odd = 0;
    }
    __syncthreads();
    double x = in[threadIdx.x];
    unsigned long long* word = reinterpret_cast<unsigned long long*>(&total);
    unsigned long long old = *word, assumed;
    do {
        assumed = old;
        old = atomicCAS(word, assumed, __double_as_longlong(x + __longlong_as_double(assumed)));
    } while (assumed != old);
    if (static_cast<int>(x) % 2 == 1) {
        unsigned short before = odd, expected;
        do {
            expected = before;
            before = atomicCAS(&odd, expected, static_cast<unsigned short>(expected + 1));
        } while (expected != before);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        sums[blockIdx.x] = total;
        counts[blockIdx.x] = odd;
    }
}
