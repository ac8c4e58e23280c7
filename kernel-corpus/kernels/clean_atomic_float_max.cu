// The maximum of floats by compare-and-swap.
//
// launch: grid=4 block=32
// args: f32[128]=iota f32[1]=zeros
// bug: none
// expect 1: f32 63.5

extern "C" __global__ void maximum(const float* in, float* best) {
    float x = in[blockIdx.x * 32 + threadIdx.x] * 0.5f;
    unsigned* bits = reinterpret_cast<unsigned*>(best);
    unsigned old = atomicOr(bits, 0u);
    while (__uint_as_float(old) < x) {
        unsigned seen = atomicCAS(bits, old, __float_as_uint(x));
        if (seen == old) break;
        old = seen;
    }
}
