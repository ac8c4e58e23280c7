// Maximum and sum of powers of each row, in one pass: m = max x, l = sum of 2^(x - m).
//
// Symptom: the test used scores sorted from the largest to the smallest, and passed. Rows in any
// other order give sums that are too large.
//
// Idea: a thread has a row. It keeps the maximum and the sum of the elements so far, as the
// softmax of FlashAttention does.
//
// launch: grid=1 block=32
// args: f32[12]={3,2,1,0,0,1,2,3,1,5,1,5} f32[3]=uninit f32[3]=uninit i32=3 i32=4
// expect 1: f32 3 3 5
// expect 2: f32 1.875 1.875 2.125
#include "prelude.cuh"

extern "C" __global__ void online_sum(
    const float* x,  // [rows, columns] f32
    float* m,        // [rows] f32
    float* l,        // [rows] f32
    int rows, int columns
) {
    const int row = threadIdx.x;
    if (row >= rows) return;
    float max = -INFINITY;
    float sum = 0.0f;
    for (int c = 0; c < columns; c++) {
        const float score = x[row * columns + c];
        const float new_max = fmaxf(max, score);
        sum += exp2f(score - new_max);
        max = new_max;
    }
    m[row] = max;
    l[row] = sum;
}
