// Every second element is written, and all are read.
//
// launch: grid=1 block=32
// args: i32[32]=iota i32[64]=uninit i32[64]=zeros
// bug: uninitialised global

extern "C" __global__ void spread(const int* in, int* between, int* out) {
    int t = threadIdx.x;
    between[2 * t] = in[t];
    __syncthreads();
    for (int i = t; i < 64; i += 32) out[i] = between[i] + 1;  // BUG
}
