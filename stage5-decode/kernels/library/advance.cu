// Counts the new tokens of each sequence once more, on the device.
//
// Idea: a step that a CUDA graph replays cannot get its lengths from the host.
//
// Grid:   x = ceil(B / 128).
// Block:  (128). A thread owns a sequence.
// Shared: none.
// Reads:  lengths, counts. Writes: lengths.
//
// launch: grid=1 block=128
// args: i32[3]={5,0,16} i32[3]={1,0,3} i32=3
// expect 0: i32 6 0 19

// ANCHOR: kernel
extern "C" __global__ void __launch_bounds__(128) advance(
    int* lengths,       // [B] i32: tokens of each sequence
    const int* counts,  // [B] i32: how many are new
    int batch           // B
) {
    const int b = blockIdx.x * 128 + threadIdx.x;
    if (b < batch) {
        lengths[b] += counts[b];
    }
}
// ANCHOR_END: kernel
