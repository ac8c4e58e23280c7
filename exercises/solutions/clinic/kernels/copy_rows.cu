// Copies the rows of a matrix, four floats at a time.
//
// Symptom: fine with rows of 64 and 128 floats, and three times as fast as float by float. With
// rows of 6 floats the launch fails.
//
// Idea: a thread has a row. It copies whole vectors of four floats, then what is left.
//
// launch: grid=1 block=32
// args: f32[18]=iota f32[18]=uninit i32=3 i32=6
// expect 1: f32 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17

extern "C" __global__ void copy_rows(
    const float* x,  // [rows, columns] f32
    float* y,        // [rows, columns] f32
    int rows, int columns
) {
    const int row = threadIdx.x;
    if (row >= rows) return;
    const float* from = x + row * columns;
    float* to = y + row * columns;
    int c = 0;
    const bool aligned = columns % 4 == 0;  // else rows do not begin at multiples of 16 bytes
    for (; aligned && c + 4 <= columns; c += 4) {
        *reinterpret_cast<float4*>(to + c) = *reinterpret_cast<const float4*>(from + c);
    }
    for (; c < columns; c++) to[c] = from[c];
}
