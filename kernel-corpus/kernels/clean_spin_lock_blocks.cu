// A spin lock between blocks, with a fence on either side of what it guards.
//
// launch: grid=6 block=32
// args: i32[1]=zeros i32[2]=zeros
// bug: none
// expect 0: i32 0
// expect 1: i32 21 6

extern "C" __global__ void deposit(int* lock, int* account) {
    if (threadIdx.x != 0) return;
    while (atomicCAS(lock, 0, 1) != 0) {}
    __threadfence();
    account[0] += blockIdx.x + 1;
    account[1] += 1;
    __threadfence();
    atomicExch(lock, 0);
}
