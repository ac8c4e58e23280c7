// One warp hands values to another through volatile flags in shared memory, with fences.
//
// launch: grid=1 block=64
// args: i32[8]=iota i32[8]=uninit
// bug: none
// expect 1: i32 0 1 4 9 16 25 36 49

extern "C" __global__ void hand_over(const int* in, int* out) {
    __shared__ volatile int turn;
    __shared__ int value;
    int t = threadIdx.x;
    if (t == 0) turn = 0;
    __syncthreads();
    if (t == 0) {
        for (int i = 0; i < 8; i++) {
            while (turn != 2 * i) {}
            __threadfence_block();
            value = in[i] * in[i];
            __threadfence_block();
            turn = 2 * i + 1;
        }
    } else if (t == 32) {
        for (int i = 0; i < 8; i++) {
            while (turn != 2 * i + 1) {}
            __threadfence_block();
            out[i] = value;
            __threadfence_block();
            turn = 2 * i + 2;
        }
    }
}
