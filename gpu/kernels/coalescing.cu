// Two loads of a warp: neighbours of a row, then neighbours of a column.
//
// Idea: the same number of bytes, in 4 sectors and in 32. Shown by `gpu trace` and `gpu picture`.
// Grid: 1. Block: 32 threads, one for each column or row.
// Shared: none.
// Reads: matrix. Writes: sums.
//
// launch: grid=1 block=32
// args: f32[1024]=iota f32[32]=uninit
// expect 1: f32 0 33 66 99 132 165 198 231 264 297 330 363 396 429 462 495 528 561 594 627 660 693 726 759 792 825 858
// expect 1: f32 891 924 957 990 1023

constexpr int COLUMNS = 32;

// ANCHOR: loads
extern "C" __global__ void coalescing(const float* matrix,  // [32, 32] f32
                                      float* sums) {        // [32] f32
    int x = threadIdx.x;
    float of_row = matrix[x];               // row 0: neighbours
    float of_column = matrix[x * COLUMNS];  // column 0: 128 bytes apart
    sums[x] = of_row + of_column;
}
// ANCHOR_END: loads
