// A polynomial of each number, or another one for some lanes of each warp.
//
// Idea: the book's page on threads moves grid, block and the border between the lanes. Threads
// without a number, warps with both sides of the branch and waves follow.
// Grid: x = blocks. Block: x = any number of threads.
// Shared: none.
// Reads: numbers. Writes: out.
//
// launch: grid=4 block=256
// args: f32[1000]=ones f32[1000]=uninit i32=1000 i32=12

// ANCHOR: kernel
extern "C" __global__ void lab_threads(const float* numbers,  // [n] f32
                                       float* out,            // [n] f32
                                       int n,
                                       int border) {  // lanes before it take the first side, 0 to 32
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float x = numbers[i];
    float sum = 0.0f;
    if (threadIdx.x % 32 < border) {
        for (int k = 0; k < 16; ++k) sum = sum * x + 1.0f;
    } else {
        for (int k = 0; k < 16; ++k) sum = sum * x - 1.0f;
    }
    out[i] = sum;
}
// ANCHOR_END: kernel
