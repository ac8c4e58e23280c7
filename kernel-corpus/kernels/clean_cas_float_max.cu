// The maximum of floats by compare-and-swap on integers, which starts with a
// plain read of the float.
//
// launch: grid=4 block=64
// args: f32[256]=iota f32[4]=zeros
// bug: none
// expect 1: f32 126 126.5 127 127.5

extern "C" __global__ void maximum(const float* in, float* best) {
    float x = in[blockIdx.x * 64 + threadIdx.x] * 0.5f;
    float* place = &best[threadIdx.x % 4];
    float old = *place;
    while (old < x) {
        float assumed = old;
        old = __int_as_float(atomicCAS(reinterpret_cast<int*>(place), __float_as_int(assumed), __float_as_int(x)));
        if (old == assumed) break;
    }
}
