// A spin lock that orders nothing but itself.
//
// launch: grid=4 block=32
// args: i32[1]=zeros i32[1]=zeros
// bug: global race

extern "C" __global__ void count(int* lock, int* counter) {
    if (threadIdx.x != 0) return;
    while (atomicCAS(lock, 0, 1) != 0) {}
    *counter += blockIdx.x + 1;  // UPDATE // BUG
    atomicExch(lock, 0);
}
