// A count made with atomics is read by plain loads while others still add to it.
//
// launch: grid=1 block=96
// args: i32[96]=iota i32[96]=zeros
// bug: shared race

extern "C" __global__ void count_even(const int* in, int* out) {
    __shared__ int count;
    int t = threadIdx.x;
    if (t == 0) count = 0;
    __syncthreads();
    if (in[t] % 2 == 0) atomicAdd(&count, 1);
    out[t] = count;  // BUG
}
