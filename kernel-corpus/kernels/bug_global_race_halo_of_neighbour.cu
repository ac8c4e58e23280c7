// Blocks write their tile and one element beyond, which belongs to the next block.
//
// launch: grid=4 block=32
// args: f32[128]=iota f32[129]=zeros
// bug: global race

extern "C" __global__ void smooth(const float* in, float* out) {
    int first = blockIdx.x * 32;
    for (int j = threadIdx.x; j < 33; j += 32) {
        float left = in[first], x = first + j < 128 ? in[first + j] : 0.0f;
        out[first + j] = x - left;  // BUG
    }
}
