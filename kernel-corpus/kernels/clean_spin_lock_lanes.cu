// Every lane takes the lock in turn; unlocking within the loop's body lets the
// warp's other lanes have it.
//
// launch: grid=2 block=32
// args: i32[1]=zeros i32[1]=zeros
// bug: none
// expect 0: i32 0
// expect 1: i32 992

extern "C" __global__ void deposit(int* lock, int* account) {
    bool done = false;
    while (!done) {
        if (atomicCAS(lock, 0, 1) == 0) {
            __threadfence();
            *account += threadIdx.x;
            __threadfence();
            atomicExch(lock, 0);
            done = true;
        }
    }
}
