// A cooperative launch of more blocks than fit on any device at the same time.
//
// launch: grid=5000 block=32 cooperative=yes
// args: i32[160000]=zeros
// bug: launch limit

extern "C" __global__ void fill(int* out) {
    out[blockIdx.x * 32 + threadIdx.x] = 1;
}
