// Reverses an array of at most 64 elements.
//
// Symptom: works for 64 elements. For 40 it hangs on one GPU, and gives zeros on another.
//
// Idea: each thread puts an element into shared memory, and takes the one from the other end.
//
// launch: grid=1 block=64
// args: f32[40]=iota f32[40]=uninit i32=40
// expect 1: f32 39 38 37 36 35 34 33 32 31 30 29 28 27 26 25 24 23 22 21 20
// expect 1: f32 19 18 17 16 15 14 13 12 11 10 9 8 7 6 5 4 3 2 1 0

extern "C" __global__ void reverse(
    const float* x,  // [n] f32
    float* y,        // [n] f32
    int n            // at most 64
) {
    __shared__ float x_smem[64];
    const int i = threadIdx.x;
    if (i < n) {
        x_smem[i] = x[i];
        __syncthreads();  // so that no thread reads an element before it is stored
        y[i] = x_smem[n - 1 - i];
    }
}
