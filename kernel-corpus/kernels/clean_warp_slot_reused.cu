// Each warp has a slot of shared memory: all its lanes read it, and after a __syncwarp one
// of them writes it again.
//
// launch: grid=1 block=96
// args: i32[96]=iota i32[96]=uninit
// bug: none
// expect 1: i32 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 134 134 134 134 134 134 134 134 134
// expect 1: i32 134 134 134 134 134 134 134 134 134 134 134 134 134 134 134 134 134 134 134 134 134 134 134 262 262
// expect 1: i32 262 262 262 262 262 262 262 262 262 262 262 262 262 262 262 262 262 262 262 262 262 262 262 262 262
// expect 1: i32 262 262 262 262 262

extern "C" __global__ void pass_around(const int* in, int* out) {
    __shared__ int slot[3];
    int t = threadIdx.x, sum = 0;
    if (t % 32 == 0) slot[t / 32] = in[t];
    __syncthreads();
#pragma unroll 1
    for (int round = 0; round < 4; round++) {
        int x = slot[t / 32];
        sum += x;
        __syncwarp();
        if (t % 32 == 7) slot[t / 32] = x + 1;
        __syncthreads();
    }
    out[t] = sum;
}
