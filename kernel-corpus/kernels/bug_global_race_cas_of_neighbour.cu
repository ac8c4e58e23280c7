// A plain read of another word than the one that the compare-and-swap expects.
//
// launch: grid=4 block=32
// args: i32[129]=zeros
// bug: global race

extern "C" __global__ void chain(int* links) {
    int i = blockIdx.x * 32 + threadIdx.x;
    int next = links[i + 1];  // BUG
    atomicCAS(&links[i], next, i + 1);  // BUG
}
