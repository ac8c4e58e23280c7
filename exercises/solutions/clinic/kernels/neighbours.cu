// The sum of each element and its right neighbour; the last element has none and stays as it is.
//
// Symptom: right for years. After an update of the allocator the last element is sometimes wrong,
// and once the program was killed.
//
// Idea: a thread has an element.
//
// launch: grid=2 block=32
// args: f32[40]=iota f32[40]=uninit i32=40
// expect 1: f32 1 3 5 7 9 11 13 15 17 19 21 23 25 27 29 31 33 35 37 39
// expect 1: f32 41 43 45 47 49 51 53 55 57 59 61 63 65 67 69 71 73 75 77 39

extern "C" __global__ void neighbours(
    const float* x,  // [n] f32
    float* y,        // [n] f32
    int n
) {
    const int i = blockIdx.x * 32 + threadIdx.x;
    if (i >= n) return;
    const float right = i + 1 < n ? x[i + 1] : 0.0f;
    y[i] = x[i] + right;
}
