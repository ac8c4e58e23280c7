// The kernel was compiled for at most 64 threads a block.
//
// launch: grid=1 block=128
// args: f32[128]=zeros
// bug: launch limit

extern "C" __global__ void __launch_bounds__(64) fill(float* out) {
    out[threadIdx.x] = 1.0f;
}
