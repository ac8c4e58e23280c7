// Sum in place: x += y.
//
// Grid:   x = ceil(count / block), a thread for each element. Shared: none.
//
// launch: grid=4 block=32
// args: f32[100]=random f32[100]=random i32=100

extern "C" __global__ void add(
    float* x,        // [count] f32, read and written
    const float* y,  // [count] f32
    int count
) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) x[i] += y[i];
}
