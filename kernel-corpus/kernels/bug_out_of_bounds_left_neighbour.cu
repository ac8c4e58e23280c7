// A difference with the left neighbour, which the first element does not have.
//
// launch: grid=2 block=32
// args: i32[64]=iota i32[64]=zeros
// bug: out of bounds

extern "C" __global__ void difference(const int* in, int* out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = in[i] - in[i - 1];  // BUG
}
