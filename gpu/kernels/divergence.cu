// A branch that goes two ways within a warp.
//
// Idea: both sides run, one after the other, each with its own lanes. Shown by `gpu trace`.
// Grid: 1. Block: 32 threads, one for each number.
// Shared: none.
// Reads: numbers. Writes: out.
//
// launch: grid=1 block=32
// args: f32[32]=iota f32[32]=uninit
// expect 1: f32 1 3 5 7 9 11 13 15 17 19 21 23 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12 12

// ANCHOR: branch
extern "C" __global__ void divergence(const float* numbers,  // [32] f32
                                      float* out) {          // [32] f32
    int lane = threadIdx.x;
    float number = numbers[lane];
    if (lane < 12) {
        number += numbers[lane + 1];
    } else {
        number -= numbers[lane - 12];
    }
    out[lane] = number;
}
// ANCHOR_END: branch
