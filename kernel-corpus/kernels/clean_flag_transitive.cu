// Block 2 waits for block 1 only, which waited for block 0; what block 0 wrote is
// visible to it all the same.
//
// launch: grid=3 block=32
// args: i32[32]=iota i32[64]=uninit u32[2]=zeros i32[32]=uninit
// bug: none
// expect 3: i32 36 36 38 42 48 56 66 78 92 108 126 146 168 192 218 246 276 308 342 378 416 456 498 542 588 636 686
// expect 3: i32 738 792 848 906 966

__device__ void wait(unsigned* flag) {
    if (threadIdx.x == 0) {
        while (*static_cast<volatile unsigned*>(flag) == 0) {}
        __threadfence();
    }
    __syncthreads();
}

__device__ void signal(unsigned* flag) {
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        *static_cast<volatile unsigned*>(flag) = 1;
    }
}

extern "C" __global__ void relay(const int* in, int* data, unsigned* flags, int* out) {
    int t = threadIdx.x;
    if (blockIdx.x == 0) {
        data[t] = in[t] + 5;
        signal(&flags[0]);
    } else if (blockIdx.x == 1) {
        wait(&flags[0]);
        data[32 + t] = in[t] * in[t];
        signal(&flags[1]);
    } else {
        wait(&flags[1]);
        out[t] = data[31 - t] + data[32 + t];
    }
}
