// A ring of the last eight values is averaged before it is full.
//
// launch: grid=1 block=32
// args: f32[32]=iota f32[32]=zeros i32=8
// bug: uninitialised local

extern "C" __global__ void moving_average(const float* in, float* out, int width) {
    float ring[8];
    int t = threadIdx.x;
    for (int i = 0; i <= t; i++) ring[i % width] = in[i];
    float sum = 0.0f;
    for (int i = 0; i < width; i++) sum += ring[i];  // BUG
    out[t] = sum / width;
}
