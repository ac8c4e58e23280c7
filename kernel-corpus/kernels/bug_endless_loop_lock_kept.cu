// The first block to take the lock never gives it back.
//
// launch: grid=3 block=32
// args: i32[1]=zeros i32[1]=zeros
// bug: endless loop

extern "C" __global__ void count(int* lock, int* counter) {
    if (threadIdx.x != 0) return;
    while (atomicCAS(lock, 0, 1) != 0) {}  // BUG
    __threadfence();
    *counter += 1;
    __threadfence();
}
