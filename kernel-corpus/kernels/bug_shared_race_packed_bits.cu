// Flags packed into words: a thread's read-modify-write undoes that of its neighbour.
//
// launch: grid=1 block=64
// args: i32[64]=iota u32[2]=zeros
// bug: shared race

extern "C" __global__ void pack(const int* in, unsigned* out) {
    __shared__ unsigned words[2];
    int t = threadIdx.x;
    if (t < 2) words[t] = 0;
    __syncthreads();
    words[t / 32] |= (in[t] % 3 == 0 ? 1u : 0u) << (t % 32);  // UPDATE // BUG
    __syncthreads();
    if (t < 2) out[t] = words[t];
}
