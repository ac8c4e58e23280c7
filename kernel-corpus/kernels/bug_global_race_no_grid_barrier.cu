// The second phase reads what other blocks write in the first;
// __syncthreads does not wait for them.
//
// launch: grid=4 block=32
// args: f32[128]=iota f32[128]=zeros f32[128]=zeros
// bug: global race

extern "C" __global__ void two_phases(const float* in, float* between, float* out) {
    int i = blockIdx.x * 32 + threadIdx.x;
    between[i] = in[i] * in[i];
    __syncthreads();
    out[i] = between[i] + between[127 - i];  // BUG
}
