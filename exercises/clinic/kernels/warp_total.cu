// The sum of at most 32 numbers, by one warp.
//
// Symptom: right for 32 numbers. For 20 the result depends on the GPU; a new driver hangs.
//
// Idea: the lanes exchange their numbers by shuffles, over half the distance each time.
//
// launch: grid=1 block=32
// args: f32[20]=iota f32[1]=uninit i32=20
// expect 1: f32 190

extern "C" __global__ void warp_total(
    const float* x,  // [n] f32
    float* y,        // [1] f32
    int n            // at most 32
) {
    const int lane = threadIdx.x;
    if (lane < n) {
        float sum = x[lane];
        for (int distance = 16; distance > 0; distance /= 2) {
            sum += __shfl_xor_sync(0xffffffffu, sum, distance);
        }
        if (lane == 0) y[0] = sum;
    }
}
