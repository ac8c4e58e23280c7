// One warp hands its values to another of its block by a flag and a fence of the block; that
// one publishes them to all.
//
// launch: grid=2 block=64
// args: i32[32]=zeros i32[1]=zeros i32[32]=zeros
// bug: none
// expect 0: i32 32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63
// expect 2: i32 63 62 61 60 59 58 57 56 55 54 53 52 51 50 49 48 47 46 45 44 43 42 41 40 39 38 37 36 35 34 33 32

extern "C" __global__ void relay(int* data, int* published, int* out) {
    __shared__ volatile int done;
    int t = threadIdx.x;
    if (t == 0) done = 0;
    __syncthreads();
    if (blockIdx.x == 0) {
        if (t >= 32) {
            data[t - 32] = t;
            __syncwarp();
            if (t == 32) {
                __threadfence_block();
                done = 1;
            }
        } else if (t == 0) {
            while (done == 0) {}
            __threadfence();
            *(volatile int*)published = 1;
        }
    } else {
        if (t == 0) {
            while (*(volatile int*)published == 0) {}
            __threadfence();
        }
        __syncthreads();
        if (t < 32) out[t] = data[31 - t];
    }
}
