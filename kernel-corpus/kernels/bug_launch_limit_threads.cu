// 33 rows of 32 threads are 32 too many.
//
// launch: grid=1 block=32,33
// args: f32[1056]=zeros
// bug: launch limit

extern "C" __global__ void fill(float* out) {
    out[threadIdx.y * 32 + threadIdx.x] = 1.0f;
}
