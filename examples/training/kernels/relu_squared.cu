// The activation y = max(x, 0)^2, or its gradient dx = 2 max(x, 0) dy.
//
// Grid:   x = ceil(count / block), a thread for each element. Shared: none.
//
// launch: grid=4 block=32
// args: f32[100]=uninit f32[100]=random f32[100]=random i32=100

extern "C" __global__ void relu_squared(
    float* out,       // [count] f32, written: dx if there is a dy, else y
    const float* x,   // [count] f32
    const float* dy,  // [count] f32, or null
    int count
) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        const float positive = fmaxf(x[i], 0.0f);
        out[i] = positive * (dy == nullptr ? positive : 2.0f * dy[i]);
    }
}
