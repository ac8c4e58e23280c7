// Reverses an array of at most 64 elements, and adds to each element its right neighbour in the
// result; the last one gets the first.
//
// Symptom: right for 64 elements. For 40 it hangs on one GPU, and gives zeros on another.
//
// Idea: each thread puts an element into shared memory, and takes the one from the other end.
//
// launch: grid=1 block=64
// args: f32[40]=iota f32[40]=uninit i32=40
// expect 1: f32 77 75 73 71 69 67 65 63 61 59 57 55 53 51 49 47 45 43 41 39
// expect 1: f32 37 35 33 31 29 27 25 23 21 19 17 15 13 11 9 7 5 3 1 39

extern "C" __global__ void reverse(
    const float* x,  // [n] f32
    float* y,        // [n] f32
    int n            // at most 64
) {
    __shared__ float x_smem[64], reversed_smem[64];
    const int i = threadIdx.x;
    if (i < n) {
        x_smem[i] = x[i];
        __syncthreads();  // so that no thread reads an element before it is stored
        reversed_smem[i] = x_smem[n - 1 - i];
    }
    __syncthreads();  // so that no thread reads an element of the result before it is stored
    if (i < n) y[i] = reversed_smem[i] + reversed_smem[(i + 1) % n];
}
