// Adds 1 to each of some counts: the positions of a batch, after a step that a CUDA graph replays.
//
// Grid:   x = ceil(n / block).
// Block:  any size; a thread per count.
// Shared: none.
// Reads:  counts. Writes: counts.
//
// launch: grid=2 block=32
// args: i32[40]=iota i32=40

// ANCHOR: kernel
extern "C" __global__ void increment(int* counts,  // [n] i32
                                     int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        counts[i] += 1;
    }
}
// ANCHOR_END: kernel
