// All threads write, a barrier gathers them, thread 0 fences for all; all
// threads of the last block read.
//
// launch: grid=4 block=32
// args: i32[128]=iota i32[128]=uninit u32[1]=zeros i32[32]=uninit
// bug: none
// expect 3: i32 14336 14724 15120 15524 15936 16356 16784 17220 17664 18116 18576 19044 19520 20004 20496 20996
// expect 3: i32 21504 22020 22544 23076 23616 24164 24720 25284 25856 26436 27024 27620 28224 28836 29456 30084

extern "C" __global__ void column_sums(const int* in, int* squares, unsigned* done, int* out) {
    __shared__ unsigned ticket;
    int t = threadIdx.x, i = blockIdx.x * 32 + t;
    squares[i] = in[i] * in[i];
    __syncthreads();
    if (t == 0) {
        __threadfence();  // cumulative: it covers what the barrier has brought here
        ticket = atomicAdd(done, 1u);
        __threadfence();
    }
    __syncthreads();
    if (ticket == gridDim.x - 1) {
        int sum = 0;
        for (int b = 0; b < 4; b++) sum += squares[b * 32 + t];
        out[t] = sum;
    }
}
