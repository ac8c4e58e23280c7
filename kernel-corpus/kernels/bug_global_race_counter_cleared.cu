// The first block clears a counter by a plain write and counts itself; the others count meanwhile.
//
// launch: grid=4 block=32
// args: i32[1]=ones
// bug: global race

extern "C" __global__ void count(int* counter) {
    if (threadIdx.x == 0) {
        if (blockIdx.x == 0) *counter = 0;  // BUG
        atomicAdd(counter, 1);  // BUG
    }
}
